package main_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write the table of settings")

var tables = regexp.MustCompile(`(?s)<!-- settings -->\n.*?<!-- end -->`)

// The table of settings in docs/service/weblimitd.md is what --help says.
func TestSettingsInTheDocs(t *testing.T) {
	t.Parallel()
	const page = "../../docs/service/weblimitd.md"
	text := must.Get(os.ReadFile(page))(t)
	var b strings.Builder
	b.WriteString("<!-- settings -->\n")
	heading, line := regexp.MustCompile(`^[A-Z]`), regexp.MustCompile(`^  (--[a-z-]+|WEBLIMIT_[A-Z_]+) +(.*?)(?: \(([^()]*)\))?$`)
	_, groups, _ := strings.Cut(help(t), "\n\nPolicy\n")
	for l := range strings.SplitSeq("Policy\n"+groups, "\n") {
		if strings.HasPrefix(l, "Signals:") {
			break
		}
		if heading.MatchString(l) {
			b.WriteString("\n**" + l + "**\n\n| Setting | Default | |\n| --- | --- | --- |\n")
		} else if f := line.FindStringSubmatch(l); f != nil {
			byDefault := ""
			if f[3] != "" {
				byDefault = "`" + f[3] + "`"
			}
			b.WriteString("| `" + f[1] + "` | " + byDefault + " | " + f[2] + " |\n")
		}
	}
	b.WriteString("\n<!-- end -->")
	want := tables.ReplaceAllLiteralString(string(text), b.String())
	if want == string(text) && tables.Match(text) {
		return
	}
	if *update {
		must.OK(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	t.Error("the settings in docs/service/weblimitd.md are not those of the program: run go test -run SettingsInTheDocs -update")
}

// Every metric of the service is in the docs, and the other way round.
func TestMetricsInTheDocs(t *testing.T) {
	t.Parallel()
	in := start(t, nil)
	text := must.Get(os.ReadFile("../../docs/service/weblimitd.md"))(t)
	name := regexp.MustCompile(`weblimitd_[a-z_]+`)
	_, scraped := in.get(t, "/metrics")
	for _, metric := range regexp.MustCompile(`(?m)^# TYPE (weblimitd_[a-z_]+)`).FindAllStringSubmatch(scraped, -1) {
		wants(t, string(text), metric[1])
	}
	source := must.Get(os.ReadFile("metrics.go"))(t)
	for _, metric := range name.FindAllString(string(text), -1) {
		wants(t, string(source), `"`+metric+`"`)
	}
}
