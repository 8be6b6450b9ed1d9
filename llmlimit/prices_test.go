package llmlimit

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestFindsTheLongestPattern(t *testing.T) {
	t.Parallel()
	text := `{"currency":"EUR","models":[`
	for i, model := range []string{"a*", "*c", "abc", "ab*", "a*c*e", "*.claude-*", "x*", "x*"[:1] + "?", "*", "aXb*", "a*Xb"} {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"model":%q,"input":1,"output":1}`, model)
	}
	prices := must.Get(ReadPrices(strings.NewReader(text + "]}")))(t)
	for model, want := range map[string]string{
		"abc": "abc", "abd": "ab*", "ax": "a*", "bc": "*c", "axcxe": "a*c*e", "axexc": "a*", "us.claude-4": "*.claude-*", "q": "*",
		"x?": "x?", "xy": "x*", "a": "a*", "": "", "aXb": "aXb*", strings.Repeat("a", 129): "", "*": "*", "ace": "a*c*e",
	} {
		price, ok := prices.Find(model)
		check.Equal(t, model, price.Model, want)
		check.Equal(t, model+" is known", ok, want != "")
	}
	check.Equal(t, "currency", prices.Currency(), "EUR")
	var none *Prices
	_, ok := none.Find("a")
	check.Equal(t, "known without prices", ok, false)
	check.Equal(t, "the dearest of none", none.Dearest(), Price{})
	check.Equal(t, "the currency of none", none.Currency(), "")
}

func TestPricesThatAreLeftOut(t *testing.T) {
	t.Parallel()
	prices := must.Get(ReadPrices(strings.NewReader(`{"currency":"USD","models":[{"model":"a","input":5,"output":7},{"model":"b","input":0,"cache_write":9,"output":0,"cache_read":1}]}`)))(t)
	a, _ := prices.Find("a")
	check.Equal(t, "a", a, Price{Model: "a", Input: 5, CacheRead: 5, CacheWrite: 5, CacheWriteHour: 5, Output: 7})
	b, _ := prices.Find("b")
	check.Equal(t, "b", b, Price{Model: "b", CacheRead: 1, CacheWrite: 9, CacheWriteHour: 9})
	check.Equal(t, "the dearest", prices.Dearest(), Price{Input: 9, CacheRead: 9, CacheWrite: 9, CacheWriteHour: 9, Output: 7})
}

func TestCostsAreExact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		price Price
		usage Usage
	}{
		{Price{Input: 150000, Output: 600000}, Usage{Input: 1, Output: 0}},
		{Price{Input: 150000, Output: 600000}, Usage{Input: 7, Output: 3}},
		{Price{Input: 3000000, CacheRead: 300000, CacheWrite: 3750000, CacheWriteHour: 6000000, Output: 15000000}, Usage{Input: 1000, CacheRead: 333, CacheWrite: 55, CacheWriteHour: 5, Output: 77}},
		{Price{Input: MaxPrice, Output: MaxPrice}, Usage{Input: MaxTokens, Output: MaxTokens}},
		{Price{Input: MaxPrice, CacheRead: MaxPrice, CacheWrite: MaxPrice, CacheWriteHour: MaxPrice, Output: MaxPrice}, Usage{Input: MaxTokens, CacheRead: MaxTokens, Output: MaxTokens}},
		{Price{}, Usage{Input: MaxTokens}},
		{Price{Input: 1}, Usage{Input: 1}},
	} {
		u, p := tt.usage, tt.price
		want := new(big.Int)
		for _, part := range [][2]int64{
			{u.Input - u.CacheRead - u.CacheWrite, p.Input},
			{u.CacheRead, p.CacheRead},
			{u.CacheWrite - u.CacheWriteHour, p.CacheWrite},
			{u.CacheWriteHour, p.CacheWriteHour},
			{u.Output, p.Output},
		} {
			want.Add(want, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		want.Add(want, big.NewInt(perMillion-1)).Div(want, big.NewInt(perMillion))
		check.Equal(t, fmt.Sprintf("%+v", tt), p.Cost(u), want.Int64())
		if p.Cost(u) >= 1<<53 || p.Cost(u) > p.most().Cost(u) {
			t.Errorf("%+v costs %d, at most %d", tt, p.Cost(u), p.most().Cost(u))
		}
	}
}

func TestPricesThatCantBeRead(t *testing.T) {
	t.Parallel()
	model := func(fields string) string {
		return `{"currency":"USD","models":[{"model":"a","input":1,"output":1},{` + fields + `}]}`
	}
	for text, part := range map[string]string{
		``:                                    "unexpected EOF",
		`[]`:                                  "want an object",
		`{"currency":"USD"`:                   "unexpected EOF",
		`{"currency":"USD"}`:                  "models is missing or empty",
		`{"models":[]}`:                       "currency is missing",
		`{"currency":5}`:                      "currency: want a name of 1 to 16 characters",
		`{"currency":"U S"}`:                  "currency: want a name",
		`{"currency":"USD","currency":"EUR"}`: `the field "currency" is there twice`,
		`{"prices":[]}`:                       `unknown field "prices"`,
		`{"currency":"USD","models":{}}`:      "models: want an array of models",
		"{\"currency\":\"\xff\"}":             "not UTF-8",
		model(``):                             "model 2: model is missing",
		model(`"model":""`):                   "model 2: model: want a name of 1 to 128 bytes",
		model(`"model":"a","input":1,"output":1`):        `model 2, "a": the model is there twice`,
		model(`"model":"b"`):                             `model 2, "b": input is missing`,
		model(`"model":"b","input":1`):                   `model 2, "b": output is missing`,
		model(`"model":"b","input":1.5`):                 `model 2, "b": input: want a whole number from 0 to 1000000000000`,
		model(`"model":"b","input":1e3`):                 `input: want a whole number`,
		model(`"model":"b","input":-1`):                  `input: want a whole number`,
		model(`"model":"b","input":"1"`):                 `input: want a whole number`,
		model(`"model":"b","input":1000000000001`):       `input: want a whole number`,
		model(`"model":"b","max_output":0`):              `max_output: want a whole number from 1 to 1000000000`,
		model(`"model":"b","input":1,"input":2`):         `model 2, "b": the field "input" is there twice`,
		model(`"model":"b","inptu":1`):                   `model 2, "b": unknown field "inptu"`,
		model(`"model":"b**"`):                           `model: ** is the same as *`,
		model(`"model":"*a*b*c*d*"`):                     `model: more than 4 *`,
		model(`"model":"b","input":1,"output":1`) + "{}": "something follows the prices",
		strings.Repeat(" ", maxPriceFile+1):              "more than 1048576 bytes",
	} {
		check.Fails(t, text[:min(len(text), 100)], check.ErrorOf(ReadPrices(strings.NewReader(text))), part)
	}
	many := make([]string, maxPrices+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"model":"m%d","input":1,"output":1}`, i)
	}
	check.Fails(t, "many models", check.ErrorOf(ReadPrices(strings.NewReader(`{"currency":"USD","models":[`+strings.Join(many, ",")+`]}`))), "more than 1000 models")
}

// A made-up model is compared with all patterns: in bounded time.
func BenchmarkFindAModelThatIsMadeUp(b *testing.B) {
	models := make([]string, maxPrices)
	for i := range models {
		models[i] = fmt.Sprintf(`{"model":"*a*a*a%d*","input":1,"output":1}`, i)
	}
	prices := must.Get(ReadPrices(strings.NewReader(`{"currency":"USD","models":[` + strings.Join(models, ",") + `]}`)))(b)
	model := strings.Repeat("a", maxModel)
	for b.Loop() {
		if _, ok := prices.Find(model); ok {
			b.Fatal("found")
		}
	}
}

func FuzzPrices(f *testing.F) {
	f.Add(testPrices, "gpt-4o")
	f.Fuzz(func(t *testing.T, text, model string) {
		prices, err := ReadPrices(strings.NewReader(text))
		if err != nil {
			check.Equal(t, "prices beside an error", prices, nil)
			return
		}
		price, _ := prices.Find(model)
		for _, p := range []Price{price, prices.Dearest()} {
			if cost := p.Cost(Usage{Input: MaxTokens, Output: MaxTokens}); cost < 0 || cost > 1<<53 {
				t.Fatalf("a cost of %d", cost)
			}
		}
	})
}
