package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// detail is the text of denials in one language.
type detail struct {
	tag   string // as the application wrote it, for Content-Language
	lower string // as it is compared
	text  func(Decision) string
}

func validateDetails(details map[string]func(Decision) string) error {
	seen := make(map[string]bool, len(details))
	for _, tag := range slices.Sorted(maps.Keys(details)) {
		switch lower := strings.ToLower(tag); {
		case !validTag(tag):
			return fmt.Errorf("weblimit: Config.Details: %.80q is not a language tag", tag)
		case details[tag] == nil:
			return fmt.Errorf("weblimit: Config.Details: no function for %q", tag)
		case seen[lower]:
			return fmt.Errorf("weblimit: Config.Details: %q is there twice, in other letters", tag)
		default:
			seen[lower] = true
		}
	}
	return nil
}

// validTag reports whether tag has the form of a language tag (RFC 5646):
// subtags of 1 to 8 letters and digits.
func validTag(tag string) bool {
	for subtag := range strings.SplitSeq(tag, "-") {
		if len(subtag) < 1 || len(subtag) > 8 || strings.Trim(subtag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return true
}

// sortDetails returns the details in the order of their tags, so that the choice
// among them does not change from process to process.
func sortDetails(details map[string]func(Decision) string) []detail {
	sorted := make([]detail, 0, len(details))
	for tag, text := range details {
		sorted = append(sorted, detail{tag, strings.ToLower(tag), text})
	}
	slices.SortFunc(sorted, func(a, b detail) int { return strings.Compare(a.lower, b.lower) })
	return sorted
}

// maxRanges bounds how much of an Accept-Language is read.
const maxRanges = 32

// chooseDetail returns the detail that suits Accept-Language best: the range of
// highest weight that any tag matches (RFC 9110, section 12.5.4; lookup as in RFC
// 4647, section 3.4), else English. It is nil for English where the application
// has no text of its own.
func chooseDetail(details []detail, accept string) *detail {
	best, _ := lookUp(details, "en")
	highest := 0
	for n, part := 0, ""; accept != "" && n < maxRanges; n++ {
		part, accept, _ = strings.Cut(accept, ",")
		language, weight := parseRange(part)
		if weight <= highest {
			continue
		}
		if found, known := lookUp(details, language); known {
			best, highest = found, weight
		}
	}
	return best
}

// lookUp finds the detail for a language, or for what it is a variety of. English
// is always known, and nil unless the application has its own.
func lookUp(details []detail, language string) (found *detail, known bool) {
	for language != "" {
		for i := range details {
			if details[i].lower == language {
				return &details[i], true
			}
		}
		if language == "en" {
			return nil, true
		}
		cut := strings.LastIndexByte(language, '-')
		language = language[:max(cut, 0)]
	}
	return nil, false
}

// parseRange reads "de-CH;q=0.8" as "de-ch" and 800; a weight that is none counts as 0.
func parseRange(part string) (language string, weight int) {
	language, params, weighted := strings.Cut(strings.ToLower(part), ";")
	language = strings.TrimSpace(language)
	if !weighted {
		return language, 1000
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
	q, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil || !(q >= 0 && q <= 1) { // NaN, too
		return language, 0
	}
	return language, int(q * 1000)
}
