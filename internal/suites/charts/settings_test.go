package charts

import (
	"cmp"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/deployed"
)

// sound checks all that holds of every rendering, and returns it decoded. weblimitd takes its environment and its files
// and says so; a test that says of what it is given says it of variables in place.
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

// taken checks that weblimitd starts with what it is given, and ends before it is killed. Where what it decides by is in a
// Redis that is not there, it says away in place of that.
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
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
