package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/deployed"
	"github.com/weblimit/weblimit/internal/test/must"
)

const deploy = "../../deploy/weblimitd/"

// The units are what systemd takes, and shut the service in.
func TestUnits(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	dir := t.TempDir()
	for _, unit := range []string{"weblimitd.service", "weblimitd.socket", "weblimitd-admin.socket"} {
		text := must.Get(os.ReadFile(deploy + unit))(t)
		// The program that the unit names has to be there.
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/weblimitd"), []byte(daemon))
		must.OK(t, os.WriteFile(filepath.Join(dir, unit), text, 0o600))
	}
	units, _ := filepath.Glob(filepath.Join(dir, "*"))
	out, err := exec.Command(analyze, append([]string{"verify"}, units...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command(analyze, "security", "--offline=true", "--threshold=15", filepath.Join(dir, "weblimitd.service")).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The settings of the units are taken, with the policy and the folder in other places.
func TestSettingsOfTheUnits(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(deploy + "weblimitd.yaml"))(t)
	limits, kept := write(t, "limits.yaml", onePolicy("1", 5)), filepath.Join(t.TempDir(), "kept.yaml")
	settings := strings.NewReplacer("/etc/weblimitd/limits.yaml", limits, "/var/lib/weblimitd/limits.yaml", kept, "# redis:", "redis:").Replace(string(text))
	passes(t, "")(inside(nil, "--check", "--config", write(t, "weblimitd.yaml", settings)))
}

// objects returns what a manifest has.
func objects(t *testing.T, name string) (all []deployed.Object) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(must.Get(os.ReadFile(name))(t))); ; {
		var o deployed.Object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// The manifest has settings and a policy that are taken. The suite charts looks at the rest of it.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	pod := deployed.New(t, objects(t, deploy+"kubernetes.yaml"), deployed.Secrets{"weblimitd": {"redis": "redis://:password@127.0.0.1:1", "tokens": "0123456789abcdef"}})
	if pod.Grace < (10+20+5+1)*time.Second {
		t.Error("Kubernetes kills it before it has drained")
	}
	passes(t, "1 policy")(inside(pod.Env, "--check"))
}

// buildah loads the image as scripts/image does, and runs it; internal/test/image looks at the file itself.
func TestImage(t *testing.T) {
	t.Parallel()
	buildah, err := exec.LookPath("buildah")
	if err != nil || os.Getuid() != 0 {
		t.Skip("no buildah, or not root")
	}
	dir := t.TempDir()
	base := []string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs"}
	command := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot", "LOADER="+buildah+" "+strings.Join(base, " "))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	ask := func(args ...string) string { t.Helper(); return command(buildah, append(base, args...)...) }
	command("../../scripts/image", "weblimitd:test")
	container := strings.TrimSpace(ask("from", "weblimitd:test"))
	defer ask("rm", container)
	if out := ask("run", container, "--", "/weblimitd", "version"); !regexp.MustCompile(`^weblimitd v\d`).MatchString(out) {
		t.Error(out)
	}
	limits := write(t, "limits.yaml", "policies: {api: {limits: {a: {limit: 5/month Europe/Berlin, by: ip}}}}")
	if err := os.Chmod(limits, 0o644); err != nil { //nolint:gosec // the container runs as somebody else
		t.Fatal(err)
	}
	// Calendar limits have their time zones, and callers without a token are refused.
	if out := ask("run", "-v", limits+":/etc/weblimitd/limits.yaml:ro", container, "--", "/weblimitd", "--check", "--policy", "/etc/weblimitd/limits.yaml"); !strings.HasPrefix(out, "ok: policy") {
		t.Error(out)
	}
}
