package charts

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// leaf is a value of values.yaml that somebody sets: one with a comment above it.
type leaf struct {
	name, byDefault, means string
}

// leaves returns all values in the order of the file.
func leaves(t *testing.T) (all []leaf) {
	t.Helper()
	var document yaml.Node
	must.OK(t, yaml.Unmarshal(must.Get(os.ReadFile(chart+"/values.yaml"))(t), &document))
	var walk func(prefix string, of *yaml.Node)
	walk = func(prefix string, of *yaml.Node) {
		for i := 0; i < len(of.Content); i += 2 {
			key, value := of.Content[i], of.Content[i+1]
			name := prefix + key.Value
			means := strings.TrimSpace(strings.ReplaceAll(strings.TrimPrefix(key.HeadComment, "# "), "\n# ", " "))
			if value.Kind == yaml.MappingNode && len(value.Content) > 0 && means == "" {
				walk(name+".", value)
				continue
			}
			if means == "" {
				t.Errorf("values.yaml does not say what %s means", name)
			}
			var v any
			must.OK(t, value.Decode(&v))
			all = append(all, leaf{name, string(must.Get(json.Marshal(v))(t)), means})
		}
	}
	walk("", document.Content[0])
	return all
}

const (
	tableBegins = "<!-- values -->\n"
	tableEnds   = "<!-- end -->\n"
)

// The table of the README is values.yaml: name, default and meaning.
func TestTheReadmeHasAllValues(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n| Value | Default | |\n| --- | --- | --- |\n")
	for _, l := range leaves(t) {
		byDefault := "`" + l.byDefault + "`"
		if l.byDefault == `""` {
			byDefault = ""
		}
		table.WriteString("| `" + l.name + "` | " + byDefault + " | " + strings.ReplaceAll(l.means, "|", `\|`) + " |\n")
	}
	table.WriteString("\n")
	readme := string(must.Get(os.ReadFile(chart + "/README.md"))(t))
	before, rest, _ := strings.Cut(readme, tableBegins)
	_, after, found := strings.Cut(rest, tableEnds)
	if !found {
		t.Fatal("README.md has no place for the table")
	}
	written(t, chart+"/README.md", before+tableBegins+table.String()+tableEnds+after)
}

// written compares a file with what it should be, or writes it.
func written(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if *update {
		must.OK(t, os.WriteFile(name, []byte(want), 0o644))
		return
	}
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the chart makes: go -C internal/suites/charts test . -update", strings.TrimPrefix(name, root+"/"))
	}
}

// The schema has the values of values.yaml and no others, so that a wrong name is an error.
func TestTheSchemaHasAllValues(t *testing.T) {
	t.Parallel()
	type object struct {
		Type                 string
		Properties           map[string]json.RawMessage
		AdditionalProperties any
	}
	var names []string
	var walk func(prefix string, text json.RawMessage)
	walk = func(prefix string, text json.RawMessage) {
		var o object
		must.OK(t, json.Unmarshal(text, &o))
		if len(o.Properties) == 0 {
			names = append(names, strings.TrimSuffix(prefix, "."))
			return
		}
		check.Equal(t, prefix+" takes other names", o.AdditionalProperties, any(false))
		for name, within := range o.Properties {
			walk(prefix+name+".", within)
		}
	}
	text := must.Get(os.ReadFile(chart + "/values.schema.json"))(t)
	walk("", text)
	var want []string
	for _, l := range leaves(t) {
		want = append(want, l.name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "global" }) // of charts that have this one in them
	slices.Sort(names)
	slices.Sort(want)
	check.Slices(t, "values of the schema", names, want)
}
