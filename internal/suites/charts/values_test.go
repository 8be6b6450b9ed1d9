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

// row sets one value.
type row struct {
	name, to string // in YAML
	given    string // what else is set, before and after
	instead  string // what is set in its place before, if one of both has to be
	away     string // what weblimitd says without the Redis that it names
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

// rows set each value of values.yaml once. testdata/values.txt has what changes by it.
var rows = []row{
	{"image.repository", "registry.example.com/other", "", "", ""},
	{"image.tag", "v1.2.3", "", "", ""},
	{"image.digest", "sha256:" + strings.Repeat("0123456789abcdef", 4), "", "", ""},
	{"image.pullPolicy", "Always", "", "", ""},
	{"imagePullSecrets", "[{name: registry}]", "", "", ""},
	{"replicas", "5", "", "", ""},
	{"policy.file", "'" + strings.TrimSpace(onePolicy) + "'", onlyEnvoy, "", ""},
	{"policy.existingConfigMap", "limits", onlyEnvoy, "", ""},
	{"policy.key", "other.yaml", "", "", ""},
	{"policy.from", "redis:limits", onlyEnvoy, "", `Redis key "limits"`},
	{"envoy.files", "{edge.yaml: '{domain: edge, descriptors: []}'}", "", "", ""},
	{"envoy.existingConfigMap", "envoy", "", "", ""},
	{"envoy.from", "redis:edge", "", "", `Redis key "edge"`},
	{"http.enabled", "false", onlyEnvoy, "", ""},
	{"callers.tokens", "[0123456789abcdef, fedcba9876543210]", byCA, "", ""},
	{"callers.secret.name", "weblimitd", byCA, "", ""},
	{"callers.secret.key", "other-tokens", "", "", ""},
	{"callers.tls.secret", "tls", "", "", ""},
	{"callers.tls.clientCA", "true", "{callers: {tls: {secret: tls}}}", "", ""},
	{"callers.tls.clientNames", "['spiffe://cluster.local/ns/edge/sa/envoy', gateway]", byCA, "", ""},
	{"callers.insecure", "true", "{callers: {secret: {name: ''}}}", "{callers: {secret: {name: weblimitd}}}", ""},
	{"callers.reservationSecret.name", "weblimitd", "", "", ""},
	{"callers.reservationSecret.key", "other-reservation-secrets", "{callers: {reservationSecret: {name: weblimitd}}}", "", ""},
	{"operators.secret.name", "weblimitd", "{operators: {tls: {secret: admin-tls}}}", "", ""},
	{"operators.secret.key", "other-users", byName, "", ""},
	{"operators.tls.secret", "admin-tls", "", "", ""},
	{"operators.hosts", "[limits.example.com, limits]", byName, "", ""},
	{"redis.url", "rediss://redis:6379/0", inMemory, "", ""},
	{"redis.urlSecret.name", "weblimitd", inMemory, "", ""},
	{"redis.urlSecret.key", "other-redis", "", "", ""},
	{"redis.passwordSecret.name", "weblimitd", byURL, "", ""},
	{"redis.passwordSecret.key", "other-password", "{redis: {url: 'redis://redis:6379', urlSecret: {name: ''}, passwordSecret: {name: weblimitd}}}", "", ""},
	{"postgres.url", "postgres://user@host/limits", onePostgres, "", ""},
	{"postgres.urlSecret.name", "weblimitd", onePostgres, "", ""},
	{"postgres.urlSecret.key", "other-postgres", inPostgres, "", ""},
	{"postgres.passwordSecret.name", "weblimitd", byURLToo, "", ""},
	{"postgres.passwordSecret.key", "other-password", "{redis: {urlSecret: {name: ''}}, postgres: {url: 'postgres://user@host/limits', passwordSecret: {name: weblimitd}}}", "", ""},
	{"settings", "{log-level: warn, max-in-flight: 1000000, envoy-near-limit: 0.9, replicas: 7}", "{envoy: {existingConfigMap: envoy}}", "", ""},
	{"logSecret.name", "weblimitd", "", "", ""},
	{"logSecret.key", "other-log-secret", "{logSecret: {name: weblimitd}}", "", ""},
	{"extraEnv", "[{name: OTEL_SERVICE_NAME, value: limits}]", "", "", ""},
	{"extraVolumes", "[{name: ca, configMap: {name: envoy}}]", "", "", ""},
	{"extraVolumeMounts", "[{name: ca, mountPath: /etc/ca, readOnly: true}]", "{extraVolumes: [{name: ca, configMap: {name: envoy}}]}", "", ""},
	{"drain.delaySeconds", "30", "", "", ""},
	{"drain.timeoutSeconds", "60", "", "", ""},
	{"minReadySeconds", "0", "", "", ""},
	{"service.headless", "true", "", "", ""},
	{"service.annotations", "{team: edge}", "", "", ""},
	{"podDisruptionBudget.enabled", "false", "", "", ""},
	{"podDisruptionBudget.maxUnavailable", "25%", "", "", ""},
	{"autoscaling.enabled", "true", "", "", ""},
	{"autoscaling.minReplicas", "2", scaled, "", ""},
	{"autoscaling.maxReplicas", "20", scaled, "", ""},
	{"autoscaling.cpu", "50", scaled, "", ""},
	{"autoscaling.behavior", "{scaleDown: {stabilizationWindowSeconds: 600}}", scaled, "", ""},
	{"networkPolicy.enabled", "true", "{networkPolicy: {callers: [{podSelector: {}}]}}", "{networkPolicy: {callers: []}}", ""},
	{"networkPolicy.callers", "[{podSelector: {matchLabels: {app: api}}}]", fenced, "", ""},
	{"networkPolicy.operators", "[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]", fenced, "", ""},
	{"networkPolicy.egress", "[{to: [{podSelector: {matchLabels: {app: redis}}}], ports: [{protocol: TCP, port: 6379}]}]", fenced, "", ""},
	{"metrics.serviceMonitor.enabled", "true", "", "", ""},
	{"metrics.serviceMonitor.interval", "15s", monitored, "", ""},
	{"metrics.serviceMonitor.labels", "{release: prometheus}", monitored, "", ""},
	{"metrics.prometheusRule.enabled", "true", "", "", ""},
	{"metrics.prometheusRule.labels", "{release: prometheus}", ruled, "", ""},
	{"resources", "{limits: {memory: 1Gi}}", "", "", ""},
	{"runAsUser", "1000", "", "", ""},
	{"serviceAccount.create", "false", "", "", ""},
	{"serviceAccount.name", "limits", "", "", ""},
	{"serviceAccount.annotations", "{team: edge}", "", "", ""},
	{"topologyKeys", "[topology.kubernetes.io/zone, kubernetes.io/hostname]", "", "", ""},
	{"nodeSelector", "{kubernetes.io/arch: arm64}", "", "", ""},
	{"tolerations", "[{key: edge, operator: Exists}]", "", "", ""},
	{"affinity", "{podAntiAffinity: {}}", "", "", ""},
	{"priorityClassName", "system", "", "", ""},
	{"podLabels", "{team: edge}", "", "", ""},
	{"podAnnotations", "{team: edge}", "", "", ""},
	{"nameOverride", "limits", "", "", ""},
	{"fullnameOverride", "edge-limits", "", "", ""},
}

// Each value changes what it says, and nothing else: testdata/values.txt has both. With each, Kubernetes knows every field,
// and weblimitd takes what it is given.
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
	for _, path := range slices.Sorted(maps.Keys(merge(before, after))) {
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

func merge(a, b map[string]string) map[string]string {
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
