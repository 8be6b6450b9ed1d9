package release

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The version is in the code, in the changelog, and in the go.mod of each module that requires a
// released one.
func TestTheVersionIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	checkVersions(t, documents.Root, core.Version())
}

// Each case is a release in a clone, up to the resolution of its tags in a user's build.
func TestRelease(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := newRepository(t)
	r.succeeds("--dry-run", "v0.1.0")
	check.Equal(t, "a dry run made the tags", r.git("tag"), "")

	out := r.succeeds("v0.1.0")
	check.Equal(t, "the command to publish it", out, "git push origin HEAD v0.1.0 scratchlimit/v0.1.0\n")
	checkVersions(t, r.dir, "v0.1.0")
	if _, errors, err := r.run("go", "-C", "examples/scratch", "build", "-o", os.DevNull, "."); err != nil {
		t.Errorf("a module without a version, which uses released ones, does not build any more: %s", errors)
	}
	check.Equal(t, "the tags", r.git("tag", "--points-at", "HEAD"), "scratchlimit/v0.1.0\nv0.1.0\n")
	check.Equal(t, "the commit", r.git("log", "-1", "--format=%s"), "Release v0.1.0\n")
	check.Equal(t, "left in the tree", r.git("status", "--porcelain"), "")

	// A pull request has given the commit another hash.
	r.git("tag", "--delete", "v0.1.0", "scratchlimit/v0.1.0")
	r.git("commit", "--quiet", "--amend", "--message", "Release v0.1.0 (#1)")
	before := r.git("rev-parse", "HEAD")
	r.succeeds("v0.1.0")
	if after := r.git("rev-parse", "v0.1.0^{commit}"); after != before {
		t.Error("a release whose files are ready is only tagged, and not committed again")
	}

	// What the next release may change.
	for _, tt := range []struct {
		name    string
		change  func(r *repository)
		version string
		refusal string // "" for none
	}{
		{"nothing is new", func(*repository) {}, "v0.1.1", "no line for v0.1.1"},
		{"a version is left out", fixed, "v0.1.2", "it is v0.1.1, v0.2.0 or v1.0.0"},
		{"a version that is there", fixed, "v0.1.0", "the tag v0.1.0 exists"},
		{"no version", fixed, "0.2.0", "want a version such as v1.2.3"},
		{"a major version without its path", fixed, "v2.0.0", "another import path"},
		{"a fix", fixed, "v0.1.1", ""},
		{"uncommitted changes", func(r *repository) { r.edit("LICENSE", "MIT", "mit") }, "v0.1.1", "the tree has changes"},
		{"a name in a patch", func(r *repository) {
			r.append("api/core.txt", "func Later()\n")
			r.news("Added")
		}, "v0.1.1", "a patch adds no exported name"},
		{"names, an interface and another layout", func(r *repository) {
			r.append("api/core.txt", "func Later()\n")
			r.append("api/core-store.txt", "type Later interface\ntype Later interface, Do()\n")
			r.write("core/redisstore/testdata/layout3/holds.txt", "")
			r.news("Added")
		}, "v0.2.0", ""},
		{"a name that nothing says", func(r *repository) {
			r.append("api/core.txt", "func Later()\n")
			r.news("Fixed")
		}, "v0.2.0", "names were added"},
		{"another name in a patch", func(r *repository) {
			r.edit("api/core.txt", "func Version() string", "func Version() int")
			r.news("Changed")
		}, "v0.1.1", "a patch changes no exported name"},
		{"another name", func(r *repository) {
			r.edit("api/core.txt", "func Version() string", "func Version() int")
			r.news("Changed")
		}, "v0.2.0", ""},
		{"another name that nothing says", func(r *repository) {
			r.edit("api/core.txt", "func Version() string", "func Version() int")
			r.news("Added")
		}, "v0.2.0", "exported names have changed"},
		{"a method of an interface", func(r *repository) {
			r.append("api/core-store.txt", "type Store interface, Later()\n")
			r.news("Added")
		}, "v0.2.0", "exported names have changed"},
		{"another record of a layout", func(r *repository) {
			r.edit("core/redisstore/testdata/layout2/holds.txt", "= {user:alice} 02", "= {user:alice} 03")
			r.news("Fixed")
		}, "v0.2.0", "records of a layout"},
		{"a module that needs what no tag has", func(r *repository) {
			r.append("scratchlimit/scratch.go", "\nimport _ \"github.com/weblimit/weblimit/nowhere\"\n")
			r.news("Fixed")
		}, "v0.1.1", "don't resolve"},
		{"a program that nobody could install", func(r *repository) {
			r.write("scratchlimit/cmd/main.go", "package main\n\nfunc main() {}\n")
			r.news("Fixed")
		}, "v0.1.1", "nobody can go install"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := r.clone(t)
			tt.change(r)
			if tt.name != "uncommitted changes" {
				r.commit("a change")
			}
			before := r.git("rev-parse", "HEAD") + r.git("tag") + r.git("status", "--porcelain")
			if tt.refusal == "" {
				r.succeeds(tt.version)
				checkVersions(t, r.dir, tt.version)
				return
			}
			_, errors, err := r.release(tt.version)
			if err == nil || !strings.Contains(errors, tt.refusal) {
				t.Errorf("released: %v, with the message\n%s\nwant a refusal with %q", err == nil, errors, tt.refusal)
			}
			if after := r.git("rev-parse", "HEAD") + r.git("tag") + r.git("status", "--porcelain"); after != before {
				t.Errorf("a refused release leaves\n%s\nwant\n%s", after, before)
			}
		})
	}

	t.Run("tests fail", func(t *testing.T) {
		t.Parallel()
		r := r.clone(t)
		fixed(r)
		r.commit("a fix")
		r.env = append(r.env, "MAKE=false")
		if _, _, err := r.release("v0.1.1"); err == nil {
			t.Error("released although tests fail")
		}
		check.Equal(t, "left behind", r.git("status", "--porcelain")+r.git("tag", "--list", "v0.1.1"), "")
	})
}

// fixed is a change that users notice.
func fixed(r *repository) { r.news("Fixed") }

// repository is a copy of a part of this one in a temporary folder, with a further module. The part
// needs the standard library only, so that a user's build of it takes a second.
type repository struct {
	t   *testing.T
	dir string
	env []string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("git is missing")
	}
	r := &repository{t: t, dir: t.TempDir(), env: append(os.Environ(),
		"MAKE=true", // in place of the tests
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	)}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "api", "core", chartFile, "internal/advice", "internal/clientkeys", "internal/compose", "internal/integer", "internal/limittext", "internal/line", "internal/seam", "internal/shelf", "internal/spelling", "internal/testclock", "keyfuncs", "scripts"} {
		copyTree(t, filepath.Join(documents.Root, name), filepath.Join(r.dir, name))
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "core", "pgstore")); err != nil { // a module of its own: scratchlimit is the only one here
		t.Fatal(err)
	}
	r.write("go.mod", "module github.com/weblimit/weblimit\n\ngo 1.25.0\n")
	r.write("scratchlimit/go.mod", `module github.com/weblimit/weblimit/scratchlimit

go 1.25.0

replace github.com/weblimit/weblimit => ../

require github.com/weblimit/weblimit `+core.Version()+"\n")
	r.write("scratchlimit/scratch.go", "package scratchlimit\n\nimport _ \"github.com/weblimit/weblimit/keyfuncs\"\n")
	r.write("examples/scratch/go.mod", `module github.com/weblimit/weblimit/examples/scratch

go 1.25.0

replace (
	github.com/weblimit/weblimit => ../..
	github.com/weblimit/weblimit/scratchlimit => ../../scratchlimit
)

require (
	github.com/weblimit/weblimit `+core.Version()+`
	github.com/weblimit/weblimit/scratchlimit `+core.Version()+`
)
`)
	r.write("examples/scratch/main.go", "package main\n\nimport _ \"github.com/weblimit/weblimit/scratchlimit\"\n\nfunc main() {}\n")
	if core.Version() != "v0.0.0" { // so that the test stays the same after a release
		r.edit("core/version.go", core.Version(), "v0.0.0")
		changelog := filepath.Join(r.dir, "CHANGELOG.md")
		text, _, _ := strings.Cut(r.read("CHANGELOG.md"), "\n## [")
		must.OK(t, os.WriteFile(changelog, []byte(text+"\n## [Unreleased]\n"), 0o644))
		r.news("Added")
	}
	r.git("init", "--quiet", "--initial-branch", "main")
	r.commit("all")
	return r
}

func (r *repository) clone(t *testing.T) *repository {
	t.Helper()
	c := &repository{t: t, dir: filepath.Join(t.TempDir(), "clone"), env: slices.Clone(r.env)}
	r.git("clone", "--quiet", r.dir, c.dir)
	return c
}

// copyTree copies a file or folder, without tests and the Go files of the Redis store: each clone writes all files once more.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".go") && strings.Contains(path, "redisstore") {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *repository) run(name string, args ...string) (out, errors string, err error) {
	cmd := exec.CommandContext(r.t.Context(), name, args...)
	var a, b strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, &a, &b
	err = cmd.Run()
	return a.String(), b.String(), err
}

func (r *repository) release(args ...string) (out, errors string, err error) {
	return r.run(filepath.Join(r.dir, "scripts/release"), args...)
}

func (r *repository) succeeds(args ...string) (out string) {
	r.t.Helper()
	out, errors, err := r.release(args...)
	if err != nil {
		r.t.Fatalf("scripts/release %v: %v\n%s", args, err, errors)
	}
	return out
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	out, errors, err := r.run("git", args...)
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, errors)
	}
	return out
}

func (r *repository) commit(message string) {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", message)
}

func (r *repository) read(name string) string {
	r.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(r.dir, name)))(r.t)
	return string(text)
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	must.OK(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(r.t, os.WriteFile(path, []byte(text), 0o644))
}

func (r *repository) append(name, text string) {
	r.t.Helper()
	r.write(name, r.read(name)+text)
}

func (r *repository) edit(name, from, to string) {
	r.t.Helper()
	before := r.read(name)
	if !strings.Contains(before, from) {
		r.t.Fatalf("%s does not have %q", name, from)
	}
	r.write(name, strings.ReplaceAll(before, from, to))
}

// news writes a line into the changelog.
func (r *repository) news(title string) {
	r.t.Helper()
	r.edit("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n### "+title+"\n\n- A change.\n")
}

var (
	inCode      = regexp.MustCompile(`(?m)^const version = "(.*)"$`)
	inChangelog = regexp.MustCompile(`(?m)^## \[(\d.*)\] - \d{4}-\d{2}-\d{2}$`)
	inChart     = regexp.MustCompile(`(?m)^version: (.*)$`)
	ofChart     = regexp.MustCompile(`(?m)^appVersion: (.*)$`)
	inModule    = regexp.MustCompile(`(?m)^(?:require|\t)\s*github\.com/weblimit/weblimit\S* (v\S+)`)
)

// chartFile has the version of Helm's chart, and that of the image that it installs.
const chartFile = "deploy/helm/weblimitd/Chart.yaml"

// checkVersions fails the test unless the repository in root has the version in every place.
func checkVersions(t *testing.T, root, want string) {
	t.Helper()
	first := func(name string, pattern *regexp.Regexp) string {
		text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		if found := pattern.FindSubmatch(text); found != nil {
			return string(found[1])
		}
		return ""
	}
	check.Equal(t, "core/version.go has version", first("core/version.go", inCode), want)
	check.Equal(t, "the chart has version", "v"+first(chartFile, inChart), want)
	check.Equal(t, "the chart installs", first(chartFile, ofChart), want)
	if got := first("CHANGELOG.md", inChangelog); "v"+got != want && (got != "" || want != "v0.0.0") {
		t.Errorf("the newest release in CHANGELOG.md is %q, want %s", got, want)
	}
	for _, folder := range modules(t, root) {
		text := must.Get(os.ReadFile(filepath.Join(root, folder, "go.mod")))(t)
		for _, found := range inModule.FindAllSubmatch(text, -1) {
			if string(found[1]) != want {
				t.Errorf("%s/go.mod: %s: want version %s", folder, found[0], want)
			}
		}
	}
}

// modules returns the folders of all modules.
func modules(t *testing.T, root string) []string {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), filepath.Join(root, "scripts/modules")).Output())(t)
	return strings.Fields(string(out))
}
