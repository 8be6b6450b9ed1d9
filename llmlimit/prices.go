package llmlimit

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// perMillion is how many tokens a price is for.
const perMillion = 1_000_000

// MaxPrice bounds each price, in micro-units for a million tokens: a million units of the currency.
const MaxPrice = 1_000_000_000_000

// Price is what a model costs, in micro-units of a currency for a million tokens: at $2.50 per million input tokens,
// Input is 2_500_000. So it is also what a token costs, in millionths of a micro-unit, and never a fraction.
type Price struct {
	// Model is the name of a model, or a pattern: each * stands for any text.
	Model string

	Input          int64 // for input tokens that are not cached
	CacheRead      int64 // for those that are read from the provider's cache
	CacheWrite     int64 // for those that are written to it
	CacheWriteHour int64 // for those that are written to it for an hour
	Output         int64 // for output tokens, thoughts among them

	// MaxOutput is the most output tokens that the model can write. It is the estimate for requests that name no
	// maximum. 0 if it is not known.
	MaxOutput int64
}

// Cost returns what a usage costs, in micro-units, rounded up once.
func (p Price) Cost(u Usage) int64 {
	var millionths uint128
	millionths.add(u.Input-u.CacheRead-u.CacheWrite, p.Input)
	millionths.add(u.CacheRead, p.CacheRead)
	millionths.add(u.CacheWrite-u.CacheWriteHour, p.CacheWrite)
	millionths.add(u.CacheWriteHour, p.CacheWriteHour)
	millionths.add(u.Output, p.Output)
	return millionths.overMillion()
}

// most is the price of the dearest way in which the tokens of an estimate can be used.
func (p Price) most() Price {
	p.Input = max(p.Input, p.CacheRead, p.CacheWrite, p.CacheWriteHour)
	p.CacheRead, p.CacheWrite, p.CacheWriteHour = p.Input, p.Input, p.Input
	return p
}

// uint128 is a sum of products.
type uint128 struct{ hi, lo uint64 }

func (s *uint128) add(tokens, price int64) {
	hi, lo := bits.Mul64(uint64(capped(tokens)), uint64(min(max(price, 0), MaxPrice)))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, _ = bits.Add64(s.hi, hi, carry)
}

// overMillion returns the sum divided by a million, rounded up. Five products have fewer than 73 bits, so the quotient
// has fewer than 53.
func (s *uint128) overMillion() int64 {
	quotient, rest := bits.Div64(s.hi, s.lo, perMillion)
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// Prices are the prices of models. They do not change, and are safe for concurrent use. A nil *Prices has no models.
type Prices struct {
	currency string
	exact    map[string]int // of names without *
	patterns []int          // of the others, the longest first
	all      []Price        // in the order of the file
	dearest  Price
}

func newPrices(currency string, all []Price) *Prices {
	p := &Prices{currency: currency, exact: map[string]int{}, all: all}
	for i, price := range all {
		if strings.Contains(price.Model, "*") {
			p.patterns = append(p.patterns, i)
		} else {
			p.exact[price.Model] = i
		}
		d, m := &p.dearest, price.most()
		d.Input, d.Output, d.MaxOutput = max(d.Input, m.Input), max(d.Output, m.Output), max(d.MaxOutput, m.MaxOutput)
	}
	p.dearest = p.dearest.most()
	slices.SortStableFunc(p.patterns, func(a, b int) int { return cmp.Compare(literal(all[b].Model), literal(all[a].Model)) })
	return p
}

// literal returns how many bytes of a pattern stand for themselves.
func literal(pattern string) int { return len(pattern) - strings.Count(pattern, "*") }

// Currency returns the currency as the file names it, such as "USD".
func (p *Prices) Currency() string {
	if p == nil {
		return ""
	}
	return p.currency
}

// Find returns the price of a model: that of its own name, or else of the longest pattern that matches, counted without
// its *. Of patterns that are equally long, the one that the file has first counts. It returns false if there is none.
func (p *Prices) Find(model string) (Price, bool) {
	if p == nil || model == "" || len(model) > maxModel {
		return Price{}, false
	}
	if i, ok := p.exact[model]; ok {
		return p.all[i], true
	}
	for _, i := range p.patterns {
		if matches(p.all[i].Model, model) {
			return p.all[i], true
		}
	}
	return Price{}, false
}

// Dearest returns the highest prices of all models, each for itself: what a model costs that has no price of its own.
func (p *Prices) Dearest() Price {
	if p == nil {
		return Price{}
	}
	return p.dearest
}

// maxModel bounds the names of models, in bytes.
const maxModel = 128

// matches reports whether a model has the form of a pattern. It takes each part as early as it can, so it takes no
// longer than the lengths of both, multiplied.
func matches(pattern, model string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == model
	}
	model, ok := strings.CutPrefix(model, first)
	for ok && star {
		first, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(model, first)
		}
		_, model, ok = strings.Cut(model, first)
	}
	return false
}

// has reports whether there is a price of this Model.
func (p *Prices) has(model string) bool {
	return p != nil && slices.ContainsFunc(p.all, func(price Price) bool { return price.Model == model })
}
