package policy

import (
	"errors"
	"strings"
	"unicode"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// The words of the format, in the order of the values that they stand for.
var (
	missingKeys  = []string{core.ShareBucket: "share", core.DenyRequest: "deny", core.SkipLimit: "skip"}
	outages      = []string{core.Local: "local", core.Allow: "allow", core.Deny: "deny"}
	regionModes  = []string{core.Leased: core.Leased.String(), core.InEachRegion: core.InEachRegion.String(), core.AtHome: core.AtHome.String()}
	headersWhens = []string{core.Always: "always", core.NearLimit: "near_limit", core.OnDenial: "on_denial", core.Never: "never"}
	dialects     = dialectWords() // by the bit of core.Headers
	refundWords  = []string{"server_errors", "failures", "successes", "canceled"}
	refunds      = []func(core.Outcome) bool{core.ServerErrors, core.Failures, core.Successes, core.Canceled}
)

// dialectWords returns the words for the dialects of headers: what core calls them, such as x_ratelimit for XRateLimit.
func dialectWords() (words []string) {
	for dialect := core.Headers(1); dialect != 0; dialect <<= 1 {
		name := dialect.String()
		if strings.Contains(name, "(") {
			break // core has no further one
		}
		var word strings.Builder
		for i, r := range strings.ReplaceAll(name, "RateLimit", "Ratelimit") { // which is one word
			if i > 0 && unicode.IsUpper(r) {
				word.WriteByte('_')
			}
			word.WriteRune(unicode.ToLower(r))
		}
		words = append(words, word.String())
	}
	return words
}

// unprefixed returns the text of an error of core or keyfuncs without what the message says anyway.
func unprefixed(err error) string {
	if of := (*store.ConfigError)(nil); errors.As(err, &of) && strings.HasPrefix(of.Path, "limit ") {
		err = of.Err // the place in the file says which limit
	}
	s := store.Reason(err)
	if rest, ok := strings.CutPrefix(s, "keyfuncs."); ok {
		if _, rest, ok := strings.Cut(rest, ": "); ok {
			s = rest
		}
	}
	return inWords.Replace(s)
}

// inWords replaces what only readers of Go know.
var inWords = strings.NewReplacer(
	"MissingKey:", "missing_key:", "Fallback:", "fallback:", "Fallback has", "fallback has", "Fallback counts", "fallback counts",
	", or use Matches if that is meant", "", "HopCount does", "hops do", "Config.", "",
	"Challenge", "challenge", "leave out Status", "leave out status",
)
