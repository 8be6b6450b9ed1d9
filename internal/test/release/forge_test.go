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

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// scripts/modules finds the modules. Everything else runs it, or has the same ones.
func TestDependabotKnowsAllModules(t *testing.T) {
	t.Parallel()
	var advisories, newest []string
	for _, e := range dependabot(t) {
		if e.ecosystem == "gomod" && e.limited {
			advisories = append(advisories, e.directories...)
		} else if e.ecosystem == "gomod" {
			newest = append(newest, e.directories...)
		}
	}
	comparisons := []string{"/bench"} // with what other limiters are today
	raised := func(dir string) bool { return slices.Contains(comparisons, dir) || today.MatchString(dir) }
	sameDirectories(t, "modules that are raised for advisories only", advisories, slices.DeleteFunc(directories(t), raised))
	sameDirectories(t, "modules that are raised every week", newest, slices.DeleteFunc(directories(t), func(dir string) bool { return !raised(dir) }))
}

func TestDependabotKnowsAllPackagesOfNode(t *testing.T) {
	t.Parallel()
	var got, want []string
	for _, e := range dependabot(t) {
		if e.ecosystem == "npm" {
			got = append(got, e.directories...)
		}
	}
	must.OK(t, filepath.WalkDir(documents.Root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
			return fs.SkipDir
		}
		if err == nil && entry.Name() == "package.json" {
			within, _ := filepath.Rel(documents.Root, filepath.Dir(path))
			want = append(want, "/"+filepath.ToSlash(within))
		}
		return err
	}))
	sameDirectories(t, "packages of Node", got, want)
}

// The workflow runs targets of the Makefile, which find the modules by scripts/modules, and nothing
// else: what it runs can be run by hand.
func TestTheWorkflowRunsTheMakefile(t *testing.T) {
	t.Parallel()
	workflow, makefile := read(t, ".github/workflows/ci.yml"), read(t, "Makefile")
	var targets []string
	for _, found := range regexp.MustCompile(`(?m)^\s*(?:- )?run: (.*)$`).FindAllStringSubmatch(workflow, -1) {
		target, is := strings.CutPrefix(found[1], "make ")
		if !is {
			t.Errorf("the workflow runs %q, which is no target of the Makefile", found[1])
		}
		targets = append(targets, target)
	}
	if want := []string{"lint", "newest", "ports", "prove", "servers", "test", "vuln"}; !slices.Equal(slices.Sorted(slices.Values(targets)), want) {
		t.Errorf("the workflow makes %v, want %v", targets, want)
	}
	for _, target := range targets {
		_, rule, found := strings.Cut(makefile, "\n"+target+":")
		rule, _, _ = strings.Cut(rule, "\n\n")
		if target == "prove" || target == "servers" || target == "newest" { // they are about one module, or about Redis
			continue
		}
		program := "go run ./internal/test/" // run or ports, which ask scripts/modules; see TestThePlanHasEveryPackageWithTests
		if !found || !strings.Contains(rule, "scripts/modules") && !strings.Contains(rule, program) {
			t.Errorf("make %s does not go through all modules", target)
		}
	}
}

// The templates for issues name pages by their addresses, which no other test follows.
func TestTemplatesNamePagesThatExist(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`github\.com/weblimit/weblimit/blob/main/([\w./-]+)`)
	links := 0
	for _, name := range []string{"config.yml", "bug.yml"} {
		for _, found := range link.FindAllStringSubmatch(read(t, ".github/ISSUE_TEMPLATE/"+name), -1) {
			links++
			if _, err := os.Stat(filepath.Join(documents.Root, found[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if links == 0 {
		t.Error("no template names a page")
	}
}

// entry is what dependabot.yml has for one ecosystem.
type entry struct {
	ecosystem   string
	directories []string
	limited     bool // to advisories
}

var directory = regexp.MustCompile(`(?m)^ {6}- (/\S*)$`)

func dependabot(t *testing.T) (entries []entry) {
	t.Helper()
	parts := strings.Split(read(t, ".github/dependabot.yml"), "- package-ecosystem: ")
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		e := entry{ecosystem: name, limited: strings.Contains(rest, "\n    open-pull-requests-limit: 0\n")}
		for _, found := range directory.FindAllStringSubmatch(rest, -1) {
			e.directories = append(e.directories, found[1])
		}
		entries = append(entries, e)
	}
	return entries
}

// directories returns the modules as dependabot.yml writes them.
func directories(t *testing.T, args ...string) (dirs []string) {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), filepath.Join(documents.Root, "scripts/modules"), args...).Output())(t)
	for _, dir := range strings.Fields(string(out)) {
		dirs = append(dirs, "/"+strings.TrimPrefix(strings.TrimPrefix(dir, "."), "/"))
	}
	return dirs
}

func sameDirectories(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	check.Slices(t, what+": .github/dependabot.yml", got, want)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(documents.Root, name)))(t)
	return string(text)
}

// A recipe that pipes what tests print ends well whatever the tests found.
func TestRecipesFailWithTheirTests(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(read(t, "Makefile")) {
		if piped := strings.Contains(line, "go test ") && strings.Contains(line, " | "); piped && !strings.Contains(line, "$$(") {
			t.Errorf("the exit status of the tests is lost: %s", line)
		}
	}
}
