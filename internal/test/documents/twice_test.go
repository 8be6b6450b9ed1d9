package documents

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pictureOf = regexp.MustCompile(`(?s)<picture>.*?</picture>|!\[[^\]]*\]\([^)]*\)`)
	inWords   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence  = regexp.MustCompile(`[.:;!?]\s+|[\n|]`)
)

// longSentence is what is surely a statement, and no name, command or phrase.
const longSentence = 80

// saidTwice are beginnings of sentences that lead to the owner of a subject, and are the same on sibling pages.
var saidTwice = []string{
	"how to run the limiter, whom it believes", // of each gateway, to gateways.md
	"migrate.md has what changes with every limiter",
}

// One page owns a subject, and others link there: no sentence stands on two pages.
func TestNothingIsSaidTwice(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	Pages(t, filepath.Join(Root, "docs"), func(page, text string) {
		text = fence.ReplaceAllString("\n"+text, "\n")
		text = inWords.ReplaceAllString(pictureOf.ReplaceAllString(text, ""), "$1")
	sentences:
		for _, s := range sentence.Split(text, -1) {
			s = strings.TrimSpace(s)
			if len(s) < longSentence || strings.Count(s, " ") < 8 {
				continue
			}
			for _, known := range saidTwice {
				if strings.HasPrefix(s, known) {
					continue sentences
				}
			}
			if before := owner[s]; before != "" && before != page {
				t.Errorf("%s and %s both say: %s", before, page, s)
			}
			owner[s] = page
		}
	})
	if len(owner) < 1000 {
		t.Errorf("only %d sentences are found", len(owner))
	}
}
