package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// head returns the comment that a file begins with.
func head(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// deployedWith renders the chart with the values of a folder in deploy, and with the limits beside them.
func deployedWith(t *testing.T, folder, release string) (string, rendered) {
	t.Helper()
	text := string(must.Get(os.ReadFile(filepath.Join(deploy, folder, "values.yaml")))(t))
	set := read(t, text)
	files := values{}
	for _, name := range must.Get(filepath.Glob(filepath.Join(deploy, "envoy", "limits", "*.yaml")))(t) {
		files[filepath.Base(name)] = string(must.Get(os.ReadFile(name))(t))
	}
	if folder != "weblimitd" {
		set = merged(set, values{"envoy": values{"files": files}})
	}
	if folder == "istio" {
		set = merged(set, read(t, "{image: {repository: registry.example.com/weblimitd}}"))
	}
	return head(text), must.Get(render(release, set))(t)
}

// The manifests for those who have no Helm are what the chart makes of the values beside them.
func TestManifestsAreWritten(t *testing.T) {
	t.Parallel()
	for folder, release := range map[string]string{"weblimitd": "weblimitd", "envoy": "weblimit"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			comment, r := deployedWith(t, folder, release)
			sound(t, r)
			written(t, filepath.Join(deploy, folder, "kubernetes.yaml"), comment+"#\n# The chart deploy/helm/weblimitd makes this file of values.yaml: change it there.\n"+r.manifest())
		})
	}
}

// The PrometheusRule has the rules of deploy/prometheus, and the chart has them in its package.
func TestRules(t *testing.T) {
	t.Parallel()
	r := must.Get(render("weblimitd", merged(read(t, base), read(t, ruled))))(t)
	c := sound(t, r)
	var want struct{ Groups any }
	must.OK(t, yaml.Unmarshal(must.Get(os.ReadFile(deploy+"/prometheus/weblimit.rules.yml"))(t), &want))
	var got struct{ Spec struct{ Groups any } }
	must.OK(t, yaml.Unmarshal([]byte(r["prometheusrule"]), &got))
	check.Equal(t, "the rules", string(must.Get(yaml.Marshal(got.Spec.Groups))(t)), string(must.Get(yaml.Marshal(want.Groups))(t)))
	if len(c.rules.Spec.Groups) == 0 || len(c.rules.Spec.Groups[0].Rules) < 20 {
		t.Errorf("%d groups of rules", len(c.rules.Spec.Groups))
	}
}

// The notes say how to reach it, and each risk that the values take.
func TestNotes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set         string
		says, hides []string
	}{
		"a policy": {"{}", []string{"counts in redis, with up to 3 instances", "http://weblimitd.limits.svc:9180", "Tokens can be read on the way", "callers.reservationSecret"}, []string{"WARNING", "9182", "memory", "ConfigMap is followed: no"}},
		"memory":   {inMemory, []string{"counts in memory.", "begins anew"}, []string{"reservation"}},
		"Envoy":    {onlyEnvoy, []string{"weblimitd.limits.svc:9182", "service.headless", "ConfigMap is followed"}, []string{"reservation", "WARNING"}},
		"headless": {"{policy: {existingConfigMap: ''}, envoy: {existingConfigMap: envoy}, service: {headless: true}, http: {enabled: false}}", nil, []string{"service.headless", "9180"}},
		"TLS":      {"{callers: {tls: {secret: tls}}}", []string{"https://weblimitd"}, []string{"on the way"}},
		"open":     {"{callers: {secret: {name: ''}, insecure: true}}", []string{"WARNING: everybody who can connect", "no network policy"}, []string{"on the way"}},
		"fenced":   {"{callers: {secret: {name: ''}, insecure: true}, networkPolicy: {enabled: true, callers: [{podSelector: {}}]}}", []string{"WARNING"}, []string{"no network policy"}},
		"tokens":   {"{callers: {secret: {name: ''}, tokens: [0123456789abcdef]}}", []string{"in the values of this release"}, []string{"0123456789abcdef"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notes := must.Get(render("weblimitd", merged(read(t, base), read(t, tt.set))))(t)["NOTES.txt"]
			for _, part := range tt.says {
				check.Contains(t, "the notes", notes, part)
			}
			for _, part := range tt.hides {
				if strings.Contains(notes, part) {
					t.Errorf("the notes say %q:\n%s", part, notes)
				}
			}
		})
	}
}

// Names fit, and stay different, whatever a release is called.
func TestNames(t *testing.T) {
	t.Parallel()
	set := merged(read(t, base), read(t, "{policy: {existingConfigMap: '', file: x}, envoy: {files: {edge.yaml: x}}, metrics: {serviceMonitor: {enabled: true}}}"))
	for release, want := range map[string]string{
		"weblimitd": "weblimitd", "edge": "edge-weblimitd", "my-weblimitd": "my-weblimitd",
		"a-release-with-a-name-as-long-as-helm-will-let-it-be1": "a-release-with-a-name-as-long-as-helm-will-let-it-be",
	} {
		c := sound(t, must.Get(render(release, set))(t))
		check.Equal(t, "the name for "+release, c.deployment.Name, want)
	}
}

// What needs no value of its own, or several: each is sound, and weblimitd takes it.
func TestOtherValues(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{
		"the user of OpenShift":      "{runAsUser: null}",
		"no requests":                "{resources: null}",
		"nowhere in particular":      "{topologyKeys: []}",
		"a tag and its digest":       "{image: {tag: v1, digest: 'sha256:" + strings.Repeat("0", 64) + "'}}",
		"names that are numbers":     "{callers: {secret: {name: '123'}}, policy: {existingConfigMap: '456'}}",
		"another way to be found":    "{podAnnotations: {prometheus.io/scrape: 'false'}, metrics: {prometheusRule: {enabled: true, labels: {app.kubernetes.io/name: rules}}}}",
		"a registry with a port":     "{image: {repository: 'localhost:5000/weblimitd'}}",
		"everything":                 "{envoy: {existingConfigMap: envoy}, callers: {tls: {secret: tls, clientCA: true, clientNames: [a]}, reservationSecret: {name: weblimitd}}, operators: {tls: {secret: admin-tls}, secret: {name: weblimitd}, hosts: [limits]}, logSecret: {name: weblimitd}, autoscaling: {enabled: true}, networkPolicy: {enabled: true, callers: [{podSelector: {}}], operators: [{podSelector: {}}], egress: [{ports: [{port: 6379}]}]}, metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}, service: {headless: true}, podLabels: {a: b}, podAnnotations: {a: b}}",
		"PostgreSQL with a password": "{redis: {urlSecret: {name: ''}}, postgres: {url: 'postgres://user@host/limits', passwordSecret: {name: weblimitd}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := must.Get(render("weblimitd", merged(read(t, base), read(t, set))))(t)
			c := sound(t, r)
			r.taken(t, "")
			if user := c.deployment.Spec.Template.Spec.SecurityContext.RunAsUser; (user == nil) != strings.Contains(set, "runAsUser") {
				t.Errorf("it runs as %v", user)
			}
		})
	}
}
