package charts

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// What would do nothing, or would be unsafe, is refused before anything is made, with what to set instead.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, set, why string }{
		{"no image", "{image: {repository: ''}}", "image.repository is not set"},
		{"nothing to decide by", "{policy: {existingConfigMap: ''}}", "nothing to decide by"},
		{"two policies", "{policy: {file: x}}", "policy.file, policy.existingConfigMap and policy.from exclude each other"},
		{"two folders of Envoy", "{envoy: {existingConfigMap: envoy, from: 'redis:edge'}}", "envoy.files, envoy.existingConfigMap and envoy.from exclude each other"},
		{"a policy that nobody can ask for", "{envoy: {existingConfigMap: envoy}, http: {enabled: false}}", "nobody could ask for what policy says"},
		{"open to everybody without saying so", "{callers: {secret: {name: ''}}}", "everybody in the cluster could use up the quotas of others"},
		{"a server certificate alone", "{callers: {secret: {name: ''}, tls: {secret: tls}}}", "everybody in the cluster could use up the quotas of others"},
		{"open beside tokens", "{callers: {insecure: true}}", "callers.insecure would do nothing"},
		{"open beside certificates", "{callers: {secret: {name: ''}, tls: {secret: tls, clientCA: true}, insecure: true}}", "callers.insecure would do nothing"},
		{"tokens twice", "{callers: {tokens: [0123456789abcdef]}}", "callers.tokens and callers.secret exclude each other"},
		{"a short token", "{callers: {secret: {name: ''}, tokens: [0123456789abcde]}}", "callers/tokens/0"},
		{"a token that is a comment", "{callers: {secret: {name: ''}, tokens: ['#0123456789abcdef']}}", "callers/tokens/0"},
		{"a token with a line break", "{callers: {secret: {name: ''}, tokens: [\"0123456789abcdef\\nx\"]}}", "callers/tokens/0"},
		{"authorities without TLS", "{callers: {tls: {clientCA: true}}}", "callers.tls.clientCA needs callers.tls.secret"},
		{"names without authorities", "{callers: {tls: {secret: tls, clientNames: [a]}}}", "callers.tls.clientNames needs callers.tls.clientCA"},
		{"passwords without TLS", "{operators: {secret: {name: weblimitd}}}", "operators.secret needs operators.tls.secret"},
		{"a name of a page that is not there", "{operators: {hosts: [limits]}}", "operators.hosts needs operators.secret"},
		{"secrets of reservations for Envoy", "{policy: {existingConfigMap: ''}, envoy: {existingConfigMap: envoy}, callers: {reservationSecret: {name: weblimitd}}}", "callers.reservationSecret needs policy"},
		{"several instances in memory", "{redis: {urlSecret: {name: ''}}}", "3 replicas need redis or postgres"},
		{"autoscaling in memory", "{redis: {urlSecret: {name: ''}}, replicas: 1, autoscaling: {enabled: true}}", "autoscaling needs redis or postgres"},
		{"a share in memory", "{redis: {urlSecret: {name: ''}}, replicas: 1, settings: {replicas: 2}}", "settings.replicas needs redis or postgres"},
		{"two stores", "{postgres: {url: 'postgres://host/limits'}}", "redis and postgres exclude each other"},
		{"two addresses", "{redis: {url: 'redis://redis:6379'}}", "redis.url and redis.urlSecret exclude each other"},
		{"a password where everybody can read it", "{redis: {url: 'redis://:secret@redis:6379', urlSecret: {name: ''}}}", "redis.url has a password"},
		{"a password of PostgreSQL where everybody can read it", "{redis: {urlSecret: {name: ''}}, postgres: {url: 'postgres://host/limits?password=x'}}", "postgres.url has a password"},
		{"an address of something else", "{redis: {url: 'http://redis', urlSecret: {name: ''}}}", "redis/url"},
		{"a password of another store", "{postgres: {passwordSecret: {name: weblimitd}}}", "postgres.passwordSecret needs postgres.url or postgres.urlSecret"},
		{"a policy in a store that is not named", "{policy: {existingConfigMap: '', from: 'postgres:limits'}}", "postgres:limits is published in a store that is not named"},
		{"limits of Envoy in a store that is not named", "{redis: {urlSecret: {name: ''}}, replicas: 1, envoy: {from: 'redis:edge'}}", "redis:edge is published in a store that is not named"},
		{"a setting of a secret", "{settings: {tokens: 0123456789abcdef}}", "whoever may read the Deployment could read a secret there"},
		{"a certificate that probes do not have", "{settings: {admin-tls-client-ca: /etc/ca/ca.crt}}", "have no certificate"},
		{"a default of the image, by which another setting would come in", "{settings: {default-insecure-listen: true}}", "defaults are the image's"},
		{"a setting without a value", "{settings: {log-level: ''}}", "settings/log-level"},
		{"a setting in the words of variables", "{settings: {WEBLIMIT_LISTEN: off}}", "WEBLIMIT_LISTEN"},
		{"a setting as a variable", "{extraEnv: [{name: WEBLIMIT_TOKENS, value: 0123456789abcdef}]}", "WEBLIMIT_TOKENS is a setting of weblimitd"},
		{"more than the most", "{autoscaling: {enabled: true, minReplicas: 11}}", "autoscaling.minReplicas is more than autoscaling.maxReplicas"},
		{"a part of no processor", "{autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}", "autoscaling needs resources.requests.cpu"},
		{"a network policy that lets nobody in", "{networkPolicy: {enabled: true}}", "would lock out everybody"},
		{"a network policy that lets Prometheus not in", "{networkPolicy: {enabled: true, callers: [{podSelector: {}}]}, metrics: {serviceMonitor: {enabled: true}}}", "would lock out Prometheus"},
		{"a network policy that is not made", "{networkPolicy: {callers: [{podSelector: {}}]}}", "networkPolicy.enabled is false"},
		{"a peer that is nobody", "{networkPolicy: {enabled: true, callers: [{}]}}", "networkPolicy/callers/0"},
		{"a node that can never be drained", "{podDisruptionBudget: {maxUnavailable: 0}}", "podDisruptionBudget/maxUnavailable"},
		{"the same in percent", "{podDisruptionBudget: {maxUnavailable: 0%}}", "podDisruptionBudget/maxUnavailable"},
		{"a label of the selector", "{podLabels: {app.kubernetes.io/name: x}}", "is a label of the selector"},
		{"root", "{runAsUser: 0}", "runAsUser"},
		{"a file of Envoy that nobody reads", "{envoy: {files: {edge.txt: 'domain: edge'}}}", "edge.txt"},
		{"a folder of Envoy on a node", "{envoy: {from: /etc/limits}}", "envoy/from"},
		{"a tag in the repository's digest", "{image: {digest: latest}}", "image/digest"},
		{"a name of no Service", "{fullnameOverride: 1edge}", "a Service can't be called 1edge"},
		{"a repository with a tag", "{image: {repository: 'registry.example.com/weblimitd:v1'}}", "image/repository"},
		{"a value of another name", "{replicaCount: 3}", "replicaCount"},
		{"a value of another name within", "{redis: {address: x}}", "address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := render("weblimitd", merged(read(t, base), read(t, tt.set)))
			check.Fails(t, "rendering", err, tt.why)
		})
	}
}

// Without any value there is nothing: each of those that are needed is said.
func TestNothingIsSet(t *testing.T) {
	t.Parallel()
	_, err := render("weblimitd", values{})
	check.Fails(t, "rendering", err, "image.repository is not set")
}

// Whatever the chart sets can not be said twice, but for what settings may change.
func TestSettingsDoNotChangeWhatValuesSet(t *testing.T) {
	t.Parallel()
	open := map[string]bool{"replicas": true, "log-format": true, "instance": true}
	names := map[string]bool{}
	for _, set := range []string{
		"{}", "{envoy: {existingConfigMap: envoy}, callers: {tls: {secret: tls, clientCA: true, clientNames: [a]}, reservationSecret: {name: weblimitd}}, operators: {tls: {secret: admin-tls}, secret: {name: weblimitd}, hosts: [limits]}, redis: {passwordSecret: {name: weblimitd}}, logSecret: {name: weblimitd}}",
		"{redis: {urlSecret: {name: ''}}, postgres: {urlSecret: {name: weblimitd}, passwordSecret: {name: weblimitd}}, callers: {secret: {name: ''}, insecure: true}}",
	} {
		c := strict(t, must.Get(render("weblimitd", merged(read(t, base), read(t, set))))(t))
		for _, e := range c.deployment.Spec.Template.Spec.Containers[0].Env {
			names[strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.Name, "WEBLIMIT_")), "_", "-")] = true
		}
	}
	for name := range names {
		_, err := render("weblimitd", merged(read(t, base), values{"settings": values{name: "x"}}))
		if (err == nil) != open[name] {
			t.Errorf("settings.%s: %v", name, err)
		}
	}
	if len(names) < 20 {
		t.Errorf("the chart sets only %v", names)
	}
}
