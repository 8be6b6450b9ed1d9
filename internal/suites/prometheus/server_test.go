package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// program returns the path of a program of Prometheus. Without it the test skips, and fails where
// CI=true.
func program(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short runs no Prometheus")
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true" && *picture == "":
		t.Skipf("no %s in PATH: install the package prometheus", name)
	default:
		t.Fatalf("%v: run scripts/install-prometheus", err)
	}
	return path
}

// server is a running Prometheus.
type server struct {
	t   *testing.T
	url string
}

// start starts a Prometheus that scrapes the instances of an application, and stops it when the test
// ends.
func start(t *testing.T, instances []string, rules string, flags ...string) *server {
	t.Helper()
	dir := t.TempDir()
	var targets []string
	for _, url := range instances {
		targets = append(targets, strconv.Quote(strings.TrimPrefix(url, "http://")))
	}
	config := fmt.Sprintf(`
global:
  scrape_interval: 500ms
  scrape_timeout: 500ms
  evaluation_interval: 500ms
rule_files: [rules.yml]
scrape_configs:
  - job_name: shop
    static_configs:
      - targets: [%s]
`, strings.Join(targets, ", "))
	for name, text := range map[string]string{"prometheus.yml": config, "rules.yml": rules} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	log := filepath.Join(dir, "log")
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("the log of Prometheus:\n%s", text)
		}
	})
	// Another process can take the port between choosing and binding it: then choose again.
	for range 5 {
		s := &server{t: t, url: "http://" + freeAddress(t)}
		if s.run(log, append([]string{
			"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + strings.TrimPrefix(s.url, "http://"),
		}, flags...)) {
			return s
		}
	}
	t.Fatal("Prometheus does not start")
	return nil
}

// run starts the process, which ends with the test, and reports whether it answers before it ends.
func (s *server) run(log string, arguments []string) bool {
	s.t.Helper()
	output := must.Get(os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(s.t)
	defer output.Close()
	cmd := exec.Command(program(s.t, "prometheus"), arguments...)
	cmd.Stdout, cmd.Stderr = output, output
	must.OK(s.t, child.Start(cmd))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed, as a rule: its log says more than its status
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it fails only on a process that is gone already
		<-ended
	})
	answers := false
	s.await("Prometheus is ready, or has ended", func() (bool, string) {
		select {
		case <-ended:
			return true, ""
		default:
		}
		response, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		answers = response.StatusCode == http.StatusOK
		return answers, response.Status
	})
	return answers
}

// freeAddress returns an address of loopback at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// patience is how long a test waits for something that must happen, on the busiest machine.
const patience = 3 * time.Minute

// await waits until a condition holds, and fails the test if it never does.
func (s *server) await(what string, holds func() (bool, string)) {
	s.t.Helper()
	began, last := time.Now(), ""
	for time.Since(began) < patience {
		ok, seen := holds()
		if ok {
			s.t.Logf("%s: after %v", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
		last = seen
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("after %v it does not hold that %s; last seen: %s", patience, what, last)
}

// get asks the API, and decodes its data.
func (s *server) get(path string, parameters url.Values, data any) error {
	response, err := http.Get(s.url + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// sample is a value that the API writes as [time, "value"].
type sample [2]any

func (s sample) value() float64 {
	text, _ := s[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// query returns the values of an expression over the time since began, without those that are
// not finite.
func (s *server) query(expression string, began time.Time) (values []float64, err error) {
	var data struct {
		Result []struct{ Values []sample }
	}
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	err = s.get("query_range", url.Values{
		"query": {expression}, "start": {seconds(began)}, "end": {seconds(time.Now())}, "step": {"0.5"},
	}, &data)
	for _, series := range data.Result {
		for _, sample := range series.Values {
			if v := sample.value(); !math.IsNaN(v) && !math.IsInf(v, 0) {
				values = append(values, v)
			}
		}
	}
	return values, err
}

// alert returns the state of an alert: "pending", "firing", or "" for neither.
func (s *server) alert(name string) string {
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := s.get("alerts", nil, &data); err != nil {
		return err.Error()
	}
	state := ""
	for _, a := range data.Alerts {
		if a.Labels["alertname"] == name && state != "firing" {
			state = a.State
		}
	}
	return state
}
