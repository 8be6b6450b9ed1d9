package charts

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/weblimit/weblimit/internal/test/deployed"
	"github.com/weblimit/weblimit/internal/test/must"
)

const (
	root   = "../../.."
	deploy = root + "/deploy"
	chart  = deploy + "/helm/weblimitd"
)

var update = flag.Bool("update", false, "write files instead of comparing them")

// values are what somebody sets of values.yaml.
type values = map[string]any

// templates are those that make objects, in the order of the files that are written: what others need comes first.
var templates = []string{
	"configmap", "secret", "serviceaccount", "deployment", "service", "poddisruptionbudget", "horizontalpodautoscaler",
	"networkpolicy", "servicemonitor", "prometheusrule",
}

// rendered is what helm install would send, by the name of the template.
type rendered map[string]string

// theChart is read once: Helm writes a line about the link to the rules each time.
var theChart = sync.OnceValues(func() (*v2.Chart, error) { return loader.LoadDir(chart) })

// render returns what Helm makes of values, or why it refuses them.
func render(release string, set values) (rendered, error) {
	loaded, err := theChart()
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(loaded, set, common.ReleaseOptions{Name: release, Namespace: "limits", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	r := rendered{}
	for name, text := range files {
		name = strings.TrimSuffix(path.Base(name), ".yaml")
		switch {
		case strings.HasPrefix(name, "_"):
		case name == "NOTES.txt" || slices.Contains(templates, name):
			r[name] = text
		default:
			return nil, fmt.Errorf("no order of templates has %s", name)
		}
	}
	return r, nil
}

// manifest returns the objects as one text.
func (r rendered) manifest() string {
	var parts []string
	for _, name := range templates {
		if text := strings.TrimSpace(r[name]); text != "" {
			parts = append(parts, strings.TrimPrefix(text, "---\n")+"\n")
		}
	}
	return strings.Join(parts, "---\n")
}

// documents returns the objects as texts.
func (r rendered) documents() (all []string) {
	for document := range strings.SplitSeq("\n"+r.manifest(), "\n---\n") {
		all = append(all, strings.TrimSpace(document)+"\n")
	}
	return all
}

// objects returns the objects decoded.
func (r rendered) objects(t *testing.T) []deployed.Object {
	t.Helper()
	return decodeAll(t, r.manifest())
}

func decodeAll(t *testing.T, text string) (all []deployed.Object) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var o deployed.Object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		all = append(all, o)
	}
}

// read returns values that are written as YAML.
func read(t *testing.T, text string) values {
	t.Helper()
	v := values{}
	must.OK(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

// merged returns values with others over them.
func merged(under, over values) values { return loader.MergeMaps(under, over) }

// nested returns values in which one value has a name such as drain.delaySeconds.
func nested(name string, value any) values {
	first, rest, more := strings.Cut(name, ".")
	if more {
		value = nested(rest, value)
	}
	return values{first: value}
}

// base are values of which each is needed.
const base = `
image: {repository: registry.example.com/weblimitd}
policy: {existingConfigMap: limits}
callers: {secret: {name: weblimitd}}
redis: {urlSecret: {name: weblimitd}}
`

// secrets are those that the tests name. What a key has, one that begins with other- has, too.
func secrets(t *testing.T) deployed.Secrets {
	keys := map[string]string{
		"tokens": "0123456789abcdef\n", "users": "ops:0123456789abcdef:act\n", "reservation-secrets": strings.Repeat("s", 32), "log-secret": "0123456789abcdef",
		"redis": "redis://:password@127.0.0.1:1", "postgres": "postgres://user:password@127.0.0.1:1/limits", "password": "password\n",
	}
	for key, text := range maps.Clone(keys) {
		keys["other-"+key] = text
	}
	pair := keyPair(t)
	return deployed.Secrets{"weblimitd": keys, "weblimit": keys, "123": keys, "tls": pair, "admin-tls": pair}
}

const onePolicy = "policies: {api: {limits: {client: {limit: 300/minute, by: ip}}}}\n"

const oneDomain = "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: second, requests_per_unit: 50}\n"

// configMaps are those that the tests name.
func configMaps() []deployed.Object {
	one := func(name string, data map[string]any) deployed.Object {
		return deployed.Object{"kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
	}
	return []deployed.Object{
		one("limits", map[string]any{"limits.yaml": onePolicy, "other.yaml": onePolicy}),
		one("456", map[string]any{"limits.yaml": onePolicy}),
		one("envoy", map[string]any{"edge.yaml": oneDomain}),
	}
}
