package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/deployed"
	"github.com/weblimit/weblimit/internal/test/must"
)

// row sets one value. All but the name is YAML.
type row struct {
	name, to string
	given    string // set before and after
	instead  string // set before, where one of the two has to be
	away     string // what weblimitd says, if the limits are in a Redis that does not answer
}

const (
	inMemory    = "{redis: {urlSecret: {name: ''}}, replicas: 1}"
	inPostgres  = "{redis: {urlSecret: {name: ''}}, postgres: {urlSecret: {name: weblimitd}}}"
	onePostgres = "{redis: {urlSecret: {name: ''}}, replicas: 1}"
	byCA        = "{callers: {secret: {name: ''}, tls: {secret: tls, clientCA: true}}}"
	scaled      = "{autoscaling: {enabled: true}}"
	fenced      = "{networkPolicy: {enabled: true, callers: [{podSelector: {}}]}}"
	monitored   = "{metrics: {serviceMonitor: {enabled: true}}}"
	ruled       = "{metrics: {prometheusRule: {enabled: true}}}"
	onlyEnvoy   = "{policy: {existingConfigMap: ''}, envoy: {existingConfigMap: envoy}}"
	byName      = "{operators: {tls: {secret: admin-tls}, secret: {name: weblimitd}}}"
	byURL       = "{redis: {url: 'redis://redis:6379', urlSecret: {name: ''}}}"
	byURLToo    = "{redis: {urlSecret: {name: ''}}, postgres: {url: 'postgres://user@host/limits'}}"
)

// rows set each value of values.yaml once.
var rows = []row{
	{name: "image.repository", to: "registry.example.com/other"},
	{name: "image.tag", to: "v1.2.3"},
	{name: "image.digest", to: "sha256:" + strings.Repeat("0123456789abcdef", 4)},
	{name: "image.pullPolicy", to: "Always"},
	{name: "imagePullSecrets", to: "[{name: registry}]"},
	{name: "replicas", to: "5"},
	{name: "policy.file", to: "'" + strings.TrimSpace(onePolicy) + "'", given: onlyEnvoy},
	{name: "policy.existingConfigMap", to: "limits", given: onlyEnvoy},
	{name: "policy.key", to: "other.yaml"},
	{name: "policy.from", to: "redis:limits", given: onlyEnvoy, away: `Redis key "limits"`},
	{name: "envoy.files", to: "{edge.yaml: '{domain: edge, descriptors: []}'}"},
	{name: "envoy.existingConfigMap", to: "envoy"},
	{name: "envoy.from", to: "redis:edge", away: `Redis key "edge"`},
	{name: "http.enabled", to: "false", given: onlyEnvoy},
	{name: "callers.tokens", to: "[0123456789abcdef, fedcba9876543210]", given: byCA},
	{name: "callers.secret.name", to: "weblimitd", given: byCA},
	{name: "callers.secret.key", to: "other-tokens"},
	{name: "callers.tls.secret", to: "tls"},
	{name: "callers.tls.clientCA", to: "true", given: "{callers: {tls: {secret: tls}}}"},
	{name: "callers.tls.clientNames", to: "['spiffe://cluster.local/ns/edge/sa/envoy', gateway]", given: byCA},
	{name: "callers.insecure", to: "true", given: "{callers: {secret: {name: ''}}}", instead: "{callers: {secret: {name: weblimitd}}}"},
	{name: "callers.reservationSecret.name", to: "weblimitd"},
	{name: "callers.reservationSecret.key", to: "other-reservation-secrets", given: "{callers: {reservationSecret: {name: weblimitd}}}"},
	{name: "operators.secret.name", to: "weblimitd", given: "{operators: {tls: {secret: admin-tls}}}"},
	{name: "operators.secret.key", to: "other-users", given: byName},
	{name: "operators.tls.secret", to: "admin-tls"},
	{name: "operators.hosts", to: "[limits.example.com, limits]", given: byName},
	{name: "redis.url", to: "rediss://redis:6379/0", given: inMemory},
	{name: "redis.urlSecret.name", to: "weblimitd", given: inMemory},
	{name: "redis.urlSecret.key", to: "other-redis"},
	{name: "redis.passwordSecret.name", to: "weblimitd", given: byURL},
	{name: "redis.passwordSecret.key", to: "other-password", given: "{redis: {url: 'redis://redis:6379', urlSecret: {name: ''}, passwordSecret: {name: weblimitd}}}"},
	{name: "postgres.url", to: "postgres://user@host/limits", given: onePostgres},
	{name: "postgres.urlSecret.name", to: "weblimitd", given: onePostgres},
	{name: "postgres.urlSecret.key", to: "other-postgres", given: inPostgres},
	{name: "postgres.passwordSecret.name", to: "weblimitd", given: byURLToo},
	{name: "postgres.passwordSecret.key", to: "other-password", given: "{redis: {urlSecret: {name: ''}}, postgres: {url: 'postgres://user@host/limits', passwordSecret: {name: weblimitd}}}"},
	{name: "settings", to: "{log-level: warn, max-in-flight: 1000000, envoy-near-limit: 0.9, replicas: 7}", given: "{envoy: {existingConfigMap: envoy}}"},
	{name: "logSecret.name", to: "weblimitd"},
	{name: "logSecret.key", to: "other-log-secret", given: "{logSecret: {name: weblimitd}}"},
	{name: "extraEnv", to: "[{name: OTEL_SERVICE_NAME, value: limits}]"},
	{name: "extraVolumes", to: "[{name: ca, configMap: {name: envoy}}]"},
	{name: "extraVolumeMounts", to: "[{name: ca, mountPath: /etc/ca, readOnly: true}]", given: "{extraVolumes: [{name: ca, configMap: {name: envoy}}]}"},
	{name: "drain.delaySeconds", to: "30"},
	{name: "drain.timeoutSeconds", to: "60"},
	{name: "minReadySeconds", to: "0"},
	{name: "service.headless", to: "true"},
	{name: "service.annotations", to: "{team: edge}"},
	{name: "podDisruptionBudget.enabled", to: "false"},
	{name: "podDisruptionBudget.maxUnavailable", to: "25%"},
	{name: "autoscaling.enabled", to: "true"},
	{name: "autoscaling.minReplicas", to: "2", given: scaled},
	{name: "autoscaling.maxReplicas", to: "20", given: scaled},
	{name: "autoscaling.cpu", to: "50", given: scaled},
	{name: "autoscaling.behavior", to: "{scaleDown: {stabilizationWindowSeconds: 600}}", given: scaled},
	{name: "networkPolicy.enabled", to: "true", given: "{networkPolicy: {callers: [{podSelector: {}}]}}", instead: "{networkPolicy: {callers: []}}"},
	{name: "networkPolicy.callers", to: "[{podSelector: {matchLabels: {app: api}}}]", given: fenced},
	{name: "networkPolicy.operators", to: "[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]", given: fenced},
	{name: "networkPolicy.egress", to: "[{to: [{podSelector: {matchLabels: {app: redis}}}], ports: [{protocol: TCP, port: 6379}]}]", given: fenced},
	{name: "metrics.serviceMonitor.enabled", to: "true"},
	{name: "metrics.serviceMonitor.interval", to: "15s", given: monitored},
	{name: "metrics.serviceMonitor.labels", to: "{release: prometheus}", given: monitored},
	{name: "metrics.prometheusRule.enabled", to: "true"},
	{name: "metrics.prometheusRule.labels", to: "{release: prometheus}", given: ruled},
	{name: "resources", to: "{limits: {memory: 1Gi}}"},
	{name: "runAsUser", to: "1000"},
	{name: "serviceAccount.create", to: "false"},
	{name: "serviceAccount.name", to: "limits"},
	{name: "serviceAccount.annotations", to: "{team: edge}"},
	{name: "topologyKeys", to: "[topology.kubernetes.io/zone, kubernetes.io/hostname]"},
	{name: "nodeSelector", to: "{kubernetes.io/arch: arm64}"},
	{name: "tolerations", to: "[{key: edge, operator: Exists}]"},
	{name: "affinity", to: "{podAntiAffinity: {}}"},
	{name: "priorityClassName", to: "system"},
	{name: "podLabels", to: "{team: edge}"},
	{name: "podAnnotations", to: "{team: edge}"},
	{name: "nameOverride", to: "limits"},
	{name: "fullnameOverride", to: "edge-limits"},
}

// Each value changes what its comment says and nothing else: testdata/values.txt has both, for review. With each,
// Kubernetes knows every field, and weblimitd takes what it is given.
func TestValues(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	known := map[string]row{}
	for _, r := range rows {
		known[r.name] = r
	}
	changes := make(map[string]string)
	var mu sync.Mutex
	t.Run("value", func(t *testing.T) {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				change := r.change(t)
				mu.Lock()
				defer mu.Unlock()
				changes[r.name] = change
			})
		}
	})
	for _, l := range leaves(t) {
		r, there := known[l.name]
		if !there {
			t.Errorf("no row of the table sets %s", l.name)
			continue
		}
		delete(known, l.name)
		fmt.Fprintf(&all, "%s: %s\n", l.name, l.means)
		if r.given != "" {
			fmt.Fprintf(&all, "  with %s\n", r.given)
		}
		if r.instead != "" {
			fmt.Fprintf(&all, "  instead of %s\n", r.instead)
		}
		fmt.Fprintf(&all, "  set to %s\n%s\n", r.to, changes[l.name])
	}
	for name := range known {
		t.Errorf("values.yaml has no %s", name)
	}
	if !t.Failed() {
		written(t, "testdata/values.txt", all.String())
	}
}

// change returns what the value changes, and checks the rendering with it.
func (r row) change(t *testing.T) string {
	t.Helper()
	given := merged(read(t, base), read(t, r.given))
	before := must.Get(render("weblimitd", merged(given, read(t, r.instead))))(t)
	var to any
	must.OK(t, yaml.Unmarshal([]byte(r.to), &to))
	after := must.Get(render("weblimitd", merged(given, nested(r.name, to))))(t)
	sound(t, after)
	after.taken(t, r.away)
	change := difference(flat(t, before), flat(t, after))
	if change == "" {
		t.Errorf("it changes nothing")
	}
	return change
}

// difference says how two renderings differ, by their fields.
func difference(before, after map[string]string) string {
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(both(before, after))) {
		was, there := before[path]
		is, stays := after[path]
		switch {
		case !there:
			fmt.Fprintf(&text, "  + %s: %s\n", path, is)
		case !stays:
			fmt.Fprintf(&text, "  - %s: %s\n", path, was)
		case was != is:
			fmt.Fprintf(&text, "  ~ %s: %s -> %s\n", path, was, is)
		}
	}
	return text.String()
}

// both returns the fields of a and b.
func both(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// flat returns the fields of all objects by their paths. An object has its kind as its name, with what its own has beyond
// that of the Deployment.
func flat(t *testing.T, r rendered) map[string]string {
	t.Helper()
	fields, deployment := map[string]string{}, ""
	objects := r.objects(t)
	name := func(o deployed.Object) string { return o["metadata"].(map[string]any)["name"].(string) }
	for _, o := range objects {
		if o["kind"] == "Deployment" {
			deployment = name(o)
		}
	}
	for _, o := range objects {
		kind := o["kind"].(string)
		if kind == "PrometheusRule" { // a test of its own compares them
			o["spec"] = "the rules of deploy/prometheus"
		}
		flatten(fields, kind+strings.TrimPrefix(name(o), deployment), o)
	}
	return fields
}

func flatten(fields map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			flatten(fields, path+" "+name, value)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, value := range v {
			at := fmt.Sprint(i)
			if m, ok := value.(map[string]any); ok && m["name"] != nil {
				at = fmt.Sprint(m["name"])
			}
			flatten(fields, path+"["+at+"]", value)
		}
		if len(v) > 0 {
			return
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what a decoder of YAML has made
	}
	fields[path] = string(text)
}
