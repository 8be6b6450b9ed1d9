package prometheus

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// duration is a range of an expression or the time of an alert.
var duration = regexp.MustCompile(`(\[|for: )\d+[mh]`)

// quickRules returns the rules of deploy/prometheus with seconds instead of minutes.
func quickRules(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/prometheus/weblimit.rules.yml")))(t)
	return duration.ReplaceAllStringFunc(string(text), func(match string) string {
		if strings.HasPrefix(match, "[") {
			return "[4s"
		}
		return "for: 1s"
	})
}

// expressions returns the queries of the dashboard, by the titles of their panels.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/grafana/weblimit.json")))(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
		Annotations struct{ List []struct{ Name, Expr string } }
	}
	must.OK(t, json.Unmarshal(text, &dashboard))
	all := map[string]string{}
	add := func(title, expression string) {
		all[title] = strings.NewReplacer("$__rate_interval", "4s", "$job", "shop", "$instance", ".*", "$limit", ".*").Replace(expression)
	}
	for i, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			add(fmt.Sprintf("panel %d, %s, %s", i, panel.Title, target.RefID), target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		add("annotation "+a.Name, a.Expr)
	}
	if len(all) < 30 {
		t.Fatalf("the dashboard has %d queries", len(all))
	}
	return all
}

// Redis is killed and comes back under load. The alerts become pending, fire, and resolve. Then each
// query of the dashboard has values.
func TestAnOutageFiresAndResolves(t *testing.T) {
	t.Parallel()
	program(t, "prometheus")
	redis := redistest.Start(t)
	app := serve(t, redis)
	began := time.Now()
	load(t, app)
	s := start(t, []string{app.URL}, quickRules(t), "--enable-feature=exemplar-storage")
	native := start(t, []string{app.URL}, "", "--enable-feature=native-histograms")

	outage := []string{"WeblimitOutage", "WeblimitFallback"}
	states := func(want string) func() (bool, string) {
		return func() (bool, string) {
			is := map[string]string{}
			for _, name := range outage {
				is[name] = s.alert(name)
			}
			return !slices.ContainsFunc(slices.Collect(maps.Values(is)), func(state string) bool { return state != want }), fmt.Sprint(is)
		}
	}
	s.await("denials of one client fire WeblimitManyDenied", func() (bool, string) {
		state := s.alert("WeblimitManyDenied")
		return state == "firing", state
	})
	s.await("before the outage its alerts are quiet", states("")) // a Redis without a processor is one for a while
	redis.Kill()
	s.await("the alerts of an outage fire", states("firing"))
	// That lasts for a second, which this process may miss.
	if values, err := s.query(`count_over_time(ALERTS{alertname="WeblimitOutage",alertstate="pending"}[10m])`, began); err != nil || len(values) == 0 {
		t.Errorf("WeblimitOutage was never pending: %v", err)
	}
	redis.Restart(t)
	s.await("the alerts of an outage have resolved", states(""))
	for _, name := range []string{"WeblimitStoreMisconfigured", "WeblimitBreakerFlapping", "WeblimitClientDenied", "WeblimitSeriesCapped"} {
		check.Equal(t, name, s.alert(name), "")
	}

	for panel, expression := range expressions(t) {
		if values, err := s.query(expression, began); err != nil || len(values) == 0 {
			t.Errorf("%s has no value (%v): %s", panel, err, expression)
		}
	}
	exemplars(t, s, began)
	metricsPage(t, app.URL)
	for _, name := range []string{"check_duration", "retry_after", "wait_duration"} {
		expression := fmt.Sprintf("histogram_quantile(0.99, sum(rate(weblimit_%s_seconds[4s])))", name)
		if values, err := native.query(expression, began); err != nil || len(values) == 0 || slices.Max(values) <= 0 {
			t.Errorf("the native histogram has no value (%v): %s", err, expression)
		}
	}
}

// exemplars fails the test unless a slow check leads to its trace.
func exemplars(t *testing.T, s *server, began time.Time) {
	t.Helper()
	var found []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	for _, name := range []string{"weblimit_check_duration_seconds_bucket", `weblimit_decisions_total{decision="denied"}`} {
		err := s.get("query_exemplars", url.Values{
			"query": {name}, "start": {fmt.Sprint(began.Unix())}, "end": {fmt.Sprint(time.Now().Unix() + 1)},
		}, &found)
		if err != nil || len(found) == 0 || found[0].Exemplars[0].Labels["trace_id"] != trace {
			t.Errorf("the exemplars of %s: %v, %v", name, found, err)
		}
	}
}

// metricsPage fails the test unless promtool finds nothing to say about the metrics, and no client
// can be found in them.
func metricsPage(t *testing.T, at string) {
	t.Helper()
	response := must.Get(http.Get(at + "/metrics"))(t)
	defer response.Body.Close()
	page := must.Get(io.ReadAll(response.Body))(t)
	check := exec.Command(program(t, "promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(string(page))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for _, client := range []string{secret, "good-client", "127.0.0.1", "apikey", "orders/1"} {
		if strings.Contains(string(page), client) {
			t.Errorf("the metrics hold %q", client)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"check", "rules", "weblimit.rules.yml"}, {"test", "rules", "weblimit.rules.test.yml"}} {
		cmd := exec.Command(program(t, "promtool"), arguments...)
		cmd.Dir = filepath.Join(documents.Root, "deploy/prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, out)
		}
	}
}

// Each alert names a section of its own that says what to do, and fires in a case. Its section is in
// docs/run/operations.md, where a table lists it with its severity, and no section is about an alert that
// does not exist.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	rules := must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/prometheus/weblimit.rules.yml")))(t)
	tests := must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/prometheus/weblimit.rules.test.yml")))(t)
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(names) == 0 {
		t.Fatal("no alert is found")
	}
	text, alerts := documents.Read(t, "run/operations.md"), map[string]bool{}
	for _, name := range names {
		alerts[name[1]] = true
		_, rule, _ := strings.Cut(string(rules), "- alert: "+name[1]+"\n")
		severity := regexp.MustCompile(`severity: (\w+)`).FindStringSubmatch(rule)
		if severity == nil {
			t.Errorf("%s has no severity", name[1])
			continue
		}
		if row := fmt.Sprintf("\n| [%s](#%s) | %s | ", name[1], strings.ToLower(name[1]), severity[1]); !strings.Contains(text, row) {
			t.Errorf("the table of docs/run/operations.md has no row that begins with %q", row)
		}
		if !strings.Contains(text, "\n### "+name[1]+"\n") {
			t.Errorf("docs/run/operations.md does not say what to do when %s fires", name[1])
		}
		if page := regexp.MustCompile(`runbook_url: https://\S+#` + strings.ToLower(name[1]) + "\n"); !page.Match(rules) {
			t.Errorf("%s has no runbook_url of its own", name[1])
		}
		fires := regexp.MustCompile(`alertname: ` + name[1] + `\n\s+eval_time: \w+\n\s+exp_alerts:\n`)
		if !fires.Match(tests) {
			t.Errorf("%s fires in no case of weblimit.rules.test.yml", name[1])
		}
	}
	for _, named := range regexp.MustCompile(`(?m)^(?:#+ |\| \[)(Weblimit\w+)`).FindAllStringSubmatch(text, -1) {
		if !alerts[named[1]] {
			t.Errorf("docs/run/operations.md has %s, and there is no such alert", named[1])
		}
	}
}
