package deployed_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/deployed"
	"github.com/weblimit/weblimit/internal/test/must"
)

// manifest has a file of a ConfigMap and one of a Secret that it does not have itself.
const manifest = `[
	{"kind": "ConfigMap", "metadata": {"name": "policy"}, "data": {"limits.yaml": "text"}},
	{"kind": "Deployment", "spec": {"template": {"spec": {
		"terminationGracePeriodSeconds": 45,
		"containers": [{
			"env": [
				{"name": "POLICY", "value": "/etc/policy/limits.yaml"},
				{"name": "TOKENS", "value": "/etc/secrets/tokens"},
				{"name": "REDIS", "valueFrom": {"secretKeyRef": {"name": "store", "key": "redis"}}},
				{"name": "INSTANCE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
				{"name": "OTHER", "value": "/etc/policyless"}
			],
			"volumeMounts": [{"name": "policy", "mountPath": "/etc/policy"}, {"name": "secrets", "mountPath": "/etc/secrets"}]
		}],
		"volumes": [
			{"name": "policy", "configMap": {"name": "policy"}},
			{"name": "secrets", "projected": {"sources": [{"secret": {"name": "store", "items": [{"key": "all", "path": "tokens"}]}}]}}
		]
	}}}}
]`

func read(t *testing.T, text string) (all []deployed.Object) {
	t.Helper()
	must.OK(t, json.Unmarshal([]byte(text), &all))
	return all
}

func TestPod(t *testing.T) {
	t.Parallel()
	pod := deployed.New(t, read(t, manifest), deployed.Secrets{"store": {"redis": "redis://redis:6379", "all": "token"}})
	check.Equal(t, "time to end", pod.Grace, 45*time.Second)
	env := map[string]string{}
	for _, e := range pod.Env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	check.All(t, "variables", []any{env["REDIS"], env["INSTANCE"], env["OTHER"]}, "redis://redis:6379", deployed.PodName, "/etc/policyless")
	for name, want := range map[string]string{"POLICY": "text", "TOKENS": "token"} {
		check.Equal(t, name, string(must.Get(os.ReadFile(env[name]))(t)), want)
	}
}

// noted is a test that keeps what is reported.
type noted struct {
	testing.TB
	said strings.Builder
}

func (n *noted) Errorf(format string, args ...any) { fmt.Fprintf(&n.said, format+"\n", args...) }

// A pod that Kubernetes would not start, or that would not see a change, fails the test.
func TestPodsThatDoNotStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ is, instead, says string }{
		"no ConfigMap":            {`"configMap": {"name": "policy"}`, `"configMap": {"name": "limits"}`, `the ConfigMap "limits" is not there`},
		"no Secret":               {`{"secret": {"name": "store"`, `{"secret": {"name": "other"`, `the Secret "other" is not there`},
		"no key of a volume":      {`"key": "all"`, `"key": "tokens"`, `has no key "tokens"`},
		"no key of a variable":    {`"key": "redis"`, `"key": "url"`, "there is no Secret store with the key url"},
		"no volume":               {`{"name": "policy", "mountPath"`, `{"name": "limits", "mountPath"`, `/etc/policy has the volume "limits"`},
		"a file that stays":       {`"mountPath": "/etc/policy"`, `"mountPath": "/etc/policy", "subPath": "limits.yaml"`, "which does not follow"},
		"a variable of elsewhere": {`"metadata.name"`, `"status.podIP"`, "INSTANCE is from somewhere else"},
		"two sources of one file": {`[{"secret"`, `[{"configMap": {"name": "policy", "items": [{"key": "limits.yaml", "path": "tokens"}]}}, {"secret"`, "another source has the file tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(manifest, tt.is, tt.instead, 1)
			n := &noted{TB: t}
			deployed.New(n, read(t, text), deployed.Secrets{"store": {"redis": "redis://redis:6379", "all": "token"}})
			check.Contains(t, "what is reported", n.said.String(), tt.says)
		})
	}
}
