package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// detail is the function of Config.Details for one language.
type detail struct {
	tag   string // as in Config.Details, for Content-Language
	lower string // the tag in lower case, for comparison
	text  func(Decision) string
}

func validateDetails(details map[string]func(Decision) string) error {
	seen := make(map[string]bool, len(details))
	for _, tag := range slices.Sorted(maps.Keys(details)) {
		switch lower := strings.ToLower(tag); {
		case !validTag(tag):
			return fmt.Errorf("weblimit: Config.Details: %.80q is not a language tag", tag)
		case details[tag] == nil:
			return fmt.Errorf("weblimit: Config.Details: the function for %q is nil", tag)
		case seen[lower]:
			return fmt.Errorf("weblimit: Config.Details: %q is there twice, in other case", tag)
		default:
			seen[lower] = true
		}
	}
	return nil
}

// validTag reports whether tag has the form of a language tag (RFC 5646): subtags of 1
// to 8 letters and digits, joined by "-".
func validTag(tag string) bool {
	for subtag := range strings.SplitSeq(tag, "-") {
		if len(subtag) < 1 || len(subtag) > 8 || strings.Trim(subtag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return true
}

// sortDetails returns the details sorted by tag, so that all processes choose alike.
func sortDetails(details map[string]func(Decision) string) []detail {
	sorted := make([]detail, 0, len(details))
	for tag, text := range details {
		sorted = append(sorted, detail{tag, strings.ToLower(tag), text})
	}
	slices.SortFunc(sorted, func(a, b detail) int { return strings.Compare(a.lower, b.lower) })
	return sorted
}

// maxRanges bounds how many language ranges of an Accept-Language are read.
const maxRanges = 32

// chooseDetail returns the detail that suits Accept-Language best: that of the range with
// the highest weight for which there is a detail (RFC 9110, section 12.5.4, with the
// lookup of RFC 4647, section 3.4). Otherwise it returns English, which is nil if
// Config.Details has none.
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

// lookUp finds the detail for a language tag, or for the tag with its last subtags
// removed: "de" for "de-ch". English is always known; its detail is nil if
// Config.Details has none.
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

// parseRange reads "de-CH;q=0.8" as "de-ch" and 800. An invalid weight counts as 0.
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
