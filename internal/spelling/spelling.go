// Package spelling finds the word that somebody meant, for messages about words that are not known.
package spelling

import (
	"fmt"
	"strings"
)

// longest is the longest text that may be a word: the time grows with its square.
const longest = 32

// Nearest returns the word that text was probably meant to be: one that differs by one letter that is
// missing, added, wrong or swapped with its neighbour, or by two if text is long. It is "" if there is none.
func Nearest(text string, words []string) string { return nearest(text, words, asItIs) }

// NearestName is [Nearest] for names of fields: upper case, blanks, "_" and "-" make no difference.
func NearestName(text string, names []string) string { return nearest(text, names, plain) }

// Meant returns "; did you mean …?" if a name is near, or "".
func Meant(text string, names []string) string {
	if name := NearestName(text, names); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// Quote returns text for a message, in quotes and not too long.
func Quote(text string) string {
	const longest = 60
	if len(text) > longest {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:longest], ""))
	}
	return fmt.Sprintf("%q", text)
}

func asItIs(s string) string { return s }

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

func plain(s string) string { return separators.Replace(strings.ToLower(s)) }

func nearest(text string, words []string, as func(string) string) (best string) {
	if len(text) > longest {
		return ""
	}
	text = as(text)
	least := min(len(text)/3, 2) + 1
	for _, word := range words {
		if d := distance(text, as(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance returns how many letters have to be added, removed, replaced or swapped with their
// neighbour to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
