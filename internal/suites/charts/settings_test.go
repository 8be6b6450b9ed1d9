package charts

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/deployed"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// sound checks what holds of every rendering, and returns it decoded.
func sound(t *testing.T, r rendered) *cluster {
	t.Helper()
	c := strict(t, r)
	c.agree(t)
	c.confined(t)
	return c
}

// pod returns what Kubernetes gives to the container of a rendering.
func (r rendered) pod(t *testing.T) deployed.Pod {
	t.Helper()
	return deployed.New(t, append(r.objects(t), configMaps()...), secrets(t))
}

// taken checks that weblimitd takes its environment and its files, and ends before it is killed. If the limits are in a
// Redis that does not answer, away is what weblimitd says of it.
func (r rendered) taken(t *testing.T, away string) {
	t.Helper()
	pod := r.pod(t)
	var delay, timeout time.Duration
	for _, e := range pod.Env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "WEBLIMIT_DRAIN_DELAY":
			delay, _ = time.ParseDuration(value)
		case "WEBLIMIT_DRAIN_TIMEOUT":
			timeout, _ = time.ParseDuration(value)
		}
	}
	if timeout == 0 || pod.Grace < delay+timeout+6*time.Second {
		t.Errorf("Kubernetes kills it after %v, before it has drained: %v and %v", pod.Grace, delay, timeout)
	}
	if out, err := ask(t, pod.Env, "--check"); (err == nil) != (away == "") || !strings.Contains(out, cmp.Or(away, "ok: ")) {
		t.Errorf("%v: %s\n%s", err, out, strings.Join(pod.Env, "\n"))
	}
}

// ask runs weblimitd to its end.
func ask(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), daemon, args...)
	cmd.Env = append([]string{program.Races}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var settingLine = regexp.MustCompile("(?m)^\\| `(--|WEBLIMIT_)([A-Za-z_-]+)` \\|")

// Each setting of weblimitd can be given to the chart: by a value that the error names, or as it is. Secrets can not: they are
// Secrets of Kubernetes, and never in the Deployment.
func TestEverySetting(t *testing.T) {
	t.Parallel()
	found := settingLine.FindAllStringSubmatch(string(must.Get(os.ReadFile(root+"/docs/service/weblimitd.md"))(t)), -1)
	for _, f := range found {
		name, variable := f[2], "WEBLIMIT_"+strings.ToUpper(strings.ReplaceAll(f[2], "-", "_"))
		if f[1] == "WEBLIMIT_" {
			name = strings.ToLower(strings.ReplaceAll(f[2], "_", "-"))
		}
		r, err := render("weblimitd", merged(read(t, base), values{"settings": values{name: "x"}}))
		switch {
		case f[1] == "WEBLIMIT_":
			check.Fails(t, "settings."+name, err, "could read a secret there")
		case err != nil && !strings.Contains(err.Error(), "instead") && !strings.Contains(err.Error(), "have no certificate"):
			t.Errorf("settings.%s: %v", name, err)
		case err == nil && !strings.Contains(r["deployment"], "- name: "+variable+"\n              value: \"x\"\n"):
			t.Errorf("settings.%s is not in\n%s", name, r["deployment"])
		}
	}
	if len(found) < 90 {
		t.Errorf("the page has %d settings", len(found))
	}
}

// A control plane is asked by its address, with settings of weblimitd beside it.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	set := "{envoy: {from: 'xds:127.0.0.1:1'}, policy: {existingConfigMap: ''}, http: {enabled: false}, settings: {envoy-xds-wait: 100ms, envoy-xds-node-id: edge}}"
	r := must.Get(render("weblimitd", merged(read(t, base), read(t, set))))(t)
	sound(t, r)
	r.taken(t, `no configuration from 127.0.0.1:1 for the node "edge"`)
}
