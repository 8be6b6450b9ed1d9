package charts

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/deployed"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// serve starts weblimitd with what a pod has, on free ports, and returns where it listens.
func serve(t *testing.T, pod deployed.Pod) (data, admin string) {
	t.Helper()
	log, ended := new(child.Output), make(chan struct{})
	cmd := exec.Command(daemon, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s")
	if slices.Contains(pod.Env, "WEBLIMIT_GRPC_LISTEN=:9182") {
		cmd.Args = append(cmd.Args, "--grpc-listen", "127.0.0.1:0")
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = pod.Env, log, log
	must.OK(t, child.Start(cmd))
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s", log)
		}
	})
	var line struct{ Msg, Data, Admin string }
	wait.Until(t, "it serves", func() bool {
		for text := range strings.SplitSeq(log.String(), "\n") {
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "weblimitd: serving" {
				return true
			}
		}
		select {
		case <-ended:
			t.Fatalf("it has ended: %s", log)
		default:
		}
		return false
	})
	return line.Data, line.Admin
}

// get asks as probes and Prometheus do: by address, and without knowing the certificate.
func get(t *testing.T, url string, fields ...string) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as probes do
	defer client.CloseIdleConnections()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response := must.Get(client.Do(r))(t)
	defer response.Body.Close()
	return response.StatusCode, string(must.Get(io.ReadAll(response.Body))(t))
}

// Probes and scrapes find what they ask for, over TLS too, and callers need the token of the Secret.
func TestProbesAreServed(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{
		"a policy":          "{}",
		"TLS for operators": "{operators: {tls: {secret: admin-tls}, secret: {name: weblimitd}}}",
		"Envoy":             "{envoy: {existingConfigMap: envoy}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := must.Get(render("weblimitd", merged(merged(read(t, base), read(t, inMemory)), merged(read(t, monitored), read(t, set)))))(t)
			c := sound(t, r)
			data, admin := serve(t, r.pod(t))
			container := c.deployment.Spec.Template.Spec.Containers[0]
			for _, probe := range []*core.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
				scheme := strings.ToLower(string(probe.HTTPGet.Scheme))
				if scheme == "" {
					scheme = "http"
				}
				status, body := get(t, scheme+"://"+admin+probe.HTTPGet.Path)
				check.Equal(t, probe.HTTPGet.Path+": "+body, status, http.StatusOK)
			}
			for _, e := range c.monitor.Spec.Endpoints {
				scheme := "http"
				if e.Scheme != nil {
					scheme = e.Scheme.String()
				}
				status, body := get(t, scheme+"://"+admin+e.Path)
				check.Equal(t, e.Path+": "+body, status, http.StatusOK)
			}
			for token, want := range map[string]int{"": http.StatusUnauthorized, "Bearer 0123456789abcdef": http.StatusOK} {
				status, body := get(t, "http://"+data+"/v1/openapi.json", "Authorization", token)
				if len(body) > 100 {
					body = body[:100]
				}
				check.Equal(t, fmt.Sprintf("a caller with %q: %s", token, body), status, want)
			}
		})
	}
}
