package yamlfile_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy/yamlfile"
)

var format = yamlfile.Format{
	Bytes: 1000, Marks: 100, Room: "3 limits", Values: 50, Levels: 3,
	Missing: "it is empty", Second: "it is two",
}

// What is no file, or passes a bound, is said with its place.
func TestWhatIsNotParsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", "f: it is empty"},
		{"# a comment\n", "f: it is empty"},
		{"a: 1\n---\nb: 2\n", "f:2:1: it is two"},
		{"a: \xff", "f: the file is not UTF-8 text"},
		{strings.Repeat("a", 1001), "f: the file has more than 1000 bytes"},
		{"[" + strings.Repeat("1,", 100) + "1]", "f: the file has more than 100 commas, colons, dashes, brackets, braces and comments, which is more than 3 limits need"},
		{"a:\n\tb: 1\n", "f:2: this is not valid YAML: found character that cannot start any token; indent with blanks, not with tabs, and put text that begins with @ or ` in quotes"},
		{"a: *s3cret\n", "f: this is not valid YAML: an alias (*…) without an anchor (&…); put text that begins with * in quotes"},
		{"a:\n  b: [c\nd: e\n", "f:2: this is not valid YAML: did not find expected ',' or ']'"},
		{"a:\nb: [", "f:2: this is not valid YAML: did not find expected node content"},
		{"a: 1\n---\nb: [", "f:3: this is not valid YAML: did not find expected node content"},
	} {
		root, problem := format.Parse([]byte(tt.text))
		if problem == nil || root != nil {
			t.Errorf("%.40q: it is parsed", tt.text)
			continue
		}
		problem.File = "f"
		check.Equal(t, fmt.Sprintf("%.40q", tt.text), problem.String(), tt.want)
	}
	mayBeEmpty := format
	mayBeEmpty.Missing = ""
	root, problem := mayBeEmpty.Parse([]byte("# a comment\n"))
	check.Equal(t, "an empty file that is none of a problem", root == nil && problem == nil, true)
}

// A text that would take gigabytes takes next to nothing, since nothing is parsed.
func TestBoundsComeBeforeParsing(t *testing.T) {
	wide := yamlfile.Format{Bytes: 8 << 20, Marks: 100_000, Room: "so many", Values: 1, Levels: 1}
	text := []byte("[" + strings.Repeat("1,", 4<<20-1) + "]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, problem := wide.Parse(text)
	runtime.ReadMemStats(&after)
	if problem == nil || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%v, and it took %d bytes", problem, after.TotalAlloc-before.TotalAlloc)
	}
}

// walk reads all values of a text, and returns what is wrong.
func walk(t *testing.T, text string) (problems []string, values int) {
	t.Helper()
	root, problem := format.Parse([]byte(text))
	must.Equal(t, "a problem", problem, nil)
	r := format.Reading()
	var read func(*yaml.Node)
	read = func(n *yaml.Node) {
		of, problem := r.Value(n)
		if problem == "" && of != nil {
			values++
			if of.Kind == yaml.ScalarNode {
				return
			}
			if problem = r.Begin(of); problem == "" {
				defer r.End(of)
				for _, in := range of.Content {
					read(in)
				}
			}
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("%d:%d: %s", n.Line, n.Column, problem))
		}
	}
	read(root)
	check.Equal(t, "it has stopped", r.Exceeded(), len(problems) > 0 && !strings.Contains(problems[0], "is inside of"))
	return problems, values
}

// Aliases are written out, within bounds, and those that hold themselves are found.
func TestReader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
		values           int
	}{
		{"aliases", "a: &x [1, 2]\nb: *x\nc: *x\n", "", 13},
		{"an alias in itself", "a: &x\n  b: 1\n  c: *x\n", "3:6: *x is inside of what it stands for", 6},
		{"an alias in itself by another", "a: &x\n  b: &y [*x, *y]\n", "2:10: *x is inside of what it stands for\n2:14: *y is inside of what it stands for", 5},
		{"an alias beside itself", "a: &x 1\nb: [*x, *x]\n", "", 7},
		{"as deep as it may be", "a: [[1]]", "", 5},
		{"one deeper", "a: [[[1]], 2]", "1:6: values are nested more than 3 deep", 5},
		{"aliases of aliases", "a: &a [1, 1, 1, 1, 1, 1, 1]\nb: &b [*a, *a, *a, *a, *a]\nc: [*b, *b, *b]", "1:23: the file has more than 50 values, with every alias written out", 50},
	} {
		problems, values := walk(t, tt.text)
		check.Equal(t, tt.name, strings.Join(problems, "\n"), tt.want)
		check.Equal(t, tt.name+": values", values, tt.values)
	}
}

// A field that is there twice is one problem, and the first one counts.
func TestKeys(t *testing.T) {
	t.Parallel()
	keys := yamlfile.Keys{}
	check.Equal(t, "a field", keys.Add("a", 3), "")
	check.Equal(t, "another", keys.Add("b", 4), "")
	check.Equal(t, "the first again", keys.Add("a", 5), `"a" is there twice, first in line 3`)
	check.Equal(t, "and again", keys.Add("a", 6), `"a" is there twice, first in line 3`)
}

// Problems are told once, in the order of files and lines, and no more than a hundred.
func TestProblems(t *testing.T) {
	t.Parallel()
	var p yamlfile.Problems
	check.OK(t, p.Err("policy"))
	p.Add(yamlfile.Problem{File: "b.yaml", Line: 1, Message: "one"})
	p.Add(yamlfile.Problem{File: "a.yaml", Line: 2, Column: 9, Path: "x.y", Message: "two"})
	p.Add(yamlfile.Problem{File: "a.yaml", Line: 2, Column: 4, Path: "x", Message: "three"})
	p.Add(yamlfile.Problem{File: "a.yaml", Line: 2, Column: 9, Path: "z.y", Message: "two"}) // by an alias
	p.Add(yamlfile.Problem{File: "a.yaml", Message: "four"})
	check.Equal(t, "the text", p.Err("policy").Error(), "weblimit: policy: a.yaml: four\na.yaml:2:4: x: three\na.yaml:2:9: x.y: two\nb.yaml:1: one")
	for i := range 200 {
		p.Add(yamlfile.Problem{File: "c.yaml", Line: i})
	}
	check.Equal(t, "counted", p.Count(), 204)
	check.Equal(t, "told", len(p.All()), 100)
	check.Equal(t, "full", p.Exceeded(), true)
	if text := p.Err("envoy").Error(); !strings.HasSuffix(text, "\nand 104 more") {
		t.Error(text)
	}
}
