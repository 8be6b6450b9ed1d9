package script

import (
	"regexp"
	"strings"
	"testing"
)

// maxDepth bounds how deep blocks are nested in the joined script.
const maxDepth = 9

// The pieces share one scope, so that a local of one piece must not hide that of another:
// what the other needs would be set in vain.
func TestNoLocalIsShadowed(t *testing.T) {
	t.Parallel()
	for _, problem := range scopes(Source, maxDepth) {
		t.Error(problem)
	}
	for code, want := range map[string]int{
		"local a if a then local a = 1 end":                        1,
		"local a, b for b = 1, 2 do local c end local c":           1,
		"local a = function(a) return a end":                       1,
		"do local a end do local a end":                            0,
		"if x then local a elseif y then local a else local a end": 0,
		"repeat local a until a local a":                           0,
		"local a local a -- local a":                               1,
		"local a = 'local a'":                                      0,
	} {
		if got := scopes(code, maxDepth); len(got) != want {
			t.Errorf("%s: %q", code, got)
		}
	}
	if got := scopes("do do do end end end", 2); len(got) != 1 {
		t.Errorf("too deep: %q", got)
	}
}

var luaToken = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\n|[^\s\w]`)

// scopes returns the locals of a Lua text that hide others, and the blocks that are nested
// deeper than they may be. It knows as much of Lua as the script uses: no long strings.
func scopes(code string, most int) (problems []string) {
	var tokens []string
	for _, token := range luaToken.FindAllString(code, -1) {
		if token != "\n" && !strings.HasPrefix(token, "--") {
			tokens = append(tokens, token)
		}
	}
	open := []map[string]bool{{}}
	declare := func(name string) {
		if name == "_" {
			return
		}
		for _, scope := range open {
			if scope[name] {
				problems = append(problems, name+" hides a local of an outer block, or of the same one")
				break
			}
		}
		open[len(open)-1][name] = true
	}
	push := func(names []string, at int) {
		if open = append(open, map[string]bool{}); len(open) == most+2 {
			problems = append(problems, "nested too deep: "+strings.Join(tokens[at:min(at+10, len(tokens))], " "))
		}
		for _, name := range names {
			declare(name)
		}
	}
	pop := func() { open = open[:len(open)-1] }
	// names returns the names in a list that begins at i, such as "a, b".
	names := func(i int) (list []string) {
		for list = append(list, tokens[i]); i+2 < len(tokens) && tokens[i+1] == ","; i += 2 {
			list = append(list, tokens[i+2])
		}
		return list
	}
	var loop []string // the variables of the loop whose "do" comes next
	for i, token := range tokens {
		switch token {
		case "local":
			if tokens[i+1] == "function" {
				declare(tokens[i+2])
				break
			}
			for _, name := range names(i + 1) {
				declare(name)
			}
		case "function":
			for tokens[i] != "(" {
				i++
			}
			if i++; tokens[i] == ")" {
				push(nil, i)
			} else {
				push(names(i), i)
			}
		case "for":
			loop = names(i + 1)
		case "do":
			push(loop, i)
			loop = nil
		case "then", "repeat":
			push(nil, i)
		case "else":
			pop()
			push(nil, i)
		case "elseif", "end", "until":
			pop()
		}
	}
	return problems
}
