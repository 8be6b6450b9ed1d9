package documents

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/weblimit/weblimit/internal/test/must"
)

var updateWords = flag.Bool("update-words", false, "write words.txt instead of comparing it")

// named is a name that users meet, and where.
type named struct {
	source string // "policy", "http", "flag", "metric", or the list of exported names, such as core
	name   string
}

// secondMeanings are names by which a word of the table would mean something else, and what it is called.
var secondMeanings = []struct {
	source, name *regexp.Regexp
	instead      string
}{
	{regexp.MustCompile(`^(core|policy|quota)$`), regexp.MustCompile(`(?i)^reserve`), "keep free, if it is a part of a limit"},
	{regexp.MustCompile(`^(core|nethttp|\w+limit)$`), regexp.MustCompile(`^Charge$`), "spend"},
	{regexp.MustCompile(`.`), regexp.MustCompile(`^Outage(Policy)?$|^outage_policy$`), "OnOutage, for what is done, or OutageAction"},
	{regexp.MustCompile(`^(policy|core-adapter|service-gateway|service-envoy)$`), regexp.MustCompile(`^Check$`), "validate"},
	{regexp.MustCompile(`^policy$`), regexp.MustCompile(`(?i)^(fraction|ratio|portion)$`), "share"},
	{regexp.MustCompile(`.`), regexp.MustCompile(`(?i)(rate_?limit_?rule|ratelimiter|throttl)`), "limit"},
}

// outageStates are fields that say that there is an outage.
var outageStates = []named{{"core", "Outage"}, {"service-client", "Outage"}, {"http", "outage"}, {"metrics-top", "Outage"}, {"inspect", "Outage"}}

// Names that users meet are made of words that have one meaning each: those of the table in words.md, and plain
// ones. A new word shows in review, as a line of words.txt, or of the table if it is one of ours.
func TestWords(t *testing.T) {
	t.Parallel()
	table := wordTable(t)
	used := make(map[string]bool)
	for _, n := range allNames(t) {
		for _, word := range wordsIn(n.name) {
			used[word] = true
		}
		for _, second := range secondMeanings {
			if second.source.MatchString(n.source) && second.name.MatchString(n.name) && !slices.Contains(outageStates, n) {
				t.Errorf("%s has the name %s: it is called %s", n.source, n.name, second.instead)
			}
		}
	}
	var plain []string
	for word := range used {
		if !table[word] {
			plain = append(plain, word)
		}
	}
	slices.Sort(plain)
	text := strings.Join(plain, "\n") + "\n"
	if *updateWords {
		must.OK(t, os.WriteFile("words.txt", []byte(text), 0o600))
		return
	}
	known := strings.Fields(string(must.Get(os.ReadFile("words.txt"))(t)))
	for _, word := range plain {
		if !slices.Contains(known, word) {
			t.Errorf("names have the word %q, which is neither in the table of words.md nor in words.txt: take one of these, or add it (go test -run TestWords -update-words)", word)
		}
	}
	for _, word := range known {
		if !slices.Contains(plain, word) {
			t.Errorf("words.txt has %q, which no name has, or the table has, too (go test -run TestWords -update-words)", word)
		}
	}
}

// wordTable returns the words of the table in words.md, each of which has one row and a meaning.
func wordTable(t *testing.T) map[string]bool {
	t.Helper()
	words := make(map[string]bool)
	for _, line := range strings.Split(Read(t, "maintain/words.md"), "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 3 || strings.HasPrefix(line, "| Word") || strings.HasPrefix(line, "| ---") {
			continue
		}
		for _, word := range wordsIn(strings.TrimPrefix(cells[0], "| ")) {
			if words[word] {
				t.Errorf("%q has two rows", word)
			}
			words[word] = true
		}
		if len(cells[1]) < 10 {
			t.Errorf("%s has no meaning", line)
		}
	}
	if len(words) < 45 {
		t.Errorf("the table has only %d words", len(words))
	}
	return words
}

// wordsIn splits a name into its words, in lower case and singular.
func wordsIn(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 1 {
			words = append(words, singular(strings.ToLower(string(word))))
		}
		word = nil
	}
	runes := []rune(name)
	for i, r := range runes {
		upper := unicode.IsUpper(r)
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case upper && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

var (
	exportedName = regexp.MustCompile(`(?m)^(?:const|var|func|type|method \(\S+\)) (\w+)(?: (?:struct|interface), (\w+))?`)
	metricName   = regexp.MustCompile(`"(weblimit_[a-z_]+)`)
	flagName     = regexp.MustCompile("`--([a-z][a-z-]+)")
)

// allNames returns the names of Go, policy files, the service's API, metrics and flags.
func allNames(t *testing.T) (all []named) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob(filepath.Join(Root, "api", "*.txt")))(t) {
		source := strings.TrimSuffix(filepath.Base(path), ".txt")
		if strings.HasPrefix(source, "internal-") {
			continue
		}
		for _, found := range exportedName.FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1) {
			if found[2] != "" {
				found[1] = found[2]
			}
			all = append(all, named{source, found[1]})
		}
	}
	for source, path := range map[string]string{"policy": "policy.schema.json", "http": "service.openapi.json"} {
		var document any
		must.OK(t, json.Unmarshal([]byte(Read(t, path)), &document))
		all = append(all, properties(source, document)...)
	}
	Sources(t, ".go", func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, found := range metricName.FindAllStringSubmatch(text, -1) {
			all = append(all, named{"metric", found[1]})
		}
	})
	for _, page := range []string{"service/weblimitd.md", "run/command.md"} {
		for _, found := range flagName.FindAllStringSubmatch(Read(t, page), -1) {
			all = append(all, named{"flag", found[1]})
		}
	}
	return all
}

// properties returns the names of all properties that a JSON schema has.
func properties(source string, v any) (all []named) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if of, ok := value.(map[string]any); ok && name == "properties" {
				for property := range of {
					all = append(all, named{source, property})
				}
			}
			all = append(all, properties(source, value)...)
		}
	case []any:
		for _, value := range v {
			all = append(all, properties(source, value)...)
		}
	}
	return all
}
