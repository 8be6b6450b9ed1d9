package prometheus_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/internal/test/must"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// described returns the names of all metrics, in alphabetical order.
func described(t *testing.T) (names []string) {
	t.Helper()
	observer := must.Get(weblimitprom.New(weblimitprom.Config{Registerer: prometheus.NewRegistry()}))(t)
	all := make(chan *prometheus.Desc)
	go func() { observer.Describe(all); close(all) }()
	for desc := range all {
		names = append(names, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1])
	}
	slices.Sort(names)
	return names
}

// undrawn are metrics without a panel, and what their readers have.
var undrawn = map[string]string{
	"weblimit_limit_quota":          "numbers of a configuration, for lines beside what is used in panels of one's own",
	"weblimit_limit_burst":          "as weblimit_limit_quota",
	"weblimit_limit_window_seconds": "as weblimit_limit_quota",
	"weblimit_class_results_total":  "few limits have classes; those of weblimit_limit_results_total are drawn",
	"weblimit_ledger_outages_total": "weblimit_ledger_out is drawn: how many ledgers are out now",
}

// Each metric has a line in the package's documentation, and a panel of the dashboard or a reason for none.
func TestEveryMetricIsDocumentedAndDrawn(t *testing.T) {
	t.Parallel()
	doc := string(must.Get(os.ReadFile("doc.go"))(t))
	dashboard := string(must.Get(os.ReadFile("../../deploy/grafana/weblimit.json"))(t))
	for _, name := range described(t) {
		if !regexp.MustCompile(`(?m)^//\t` + strings.TrimPrefix(name, "weblimit_") + `[ {]`).MatchString(doc) {
			t.Errorf("doc.go has no line about %s", name)
		}
		if drawn := regexp.MustCompile(name + `(_bucket)?\b`).MatchString(dashboard); drawn == (undrawn[name] != "") {
			t.Errorf("%s: the dashboard of deploy/grafana has it: %v, and undrawn says %q", name, drawn, undrawn[name])
		}
	}
}
