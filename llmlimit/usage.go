package llmlimit

// MaxTokens bounds each number of tokens that is read or estimated: larger ones count as this. So no sum and no cost
// overflows.
const MaxTokens = 1_000_000_000

// Usage is what a call has used, in tokens. The providers' numbers include each other in different ways; here the parts
// are always parts: cached tokens are of Input, and reasoning tokens are of Output.
type Usage struct {
	Input          int64 // all tokens of the request, cached or not
	CacheRead      int64 // of Input: read from the provider's cache
	CacheWrite     int64 // of Input: written to it
	CacheWriteHour int64 // of CacheWrite: for an hour, which costs more than for minutes
	Output         int64 // all tokens of the answer
	Reasoning      int64 // of Output: thoughts, which the answer may not show
}

// Total returns Input and Output.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Measure is what a limit counts of a call.
type Measure uint8

// The measures.
const (
	// Requests counts calls, one each.
	Requests Measure = iota
	// Tokens counts Usage.Total.
	Tokens
	// InputTokens counts Usage.Input.
	InputTokens
	// OutputTokens counts Usage.Output.
	OutputTokens
	// Money counts what a call costs by the prices, in micro-units of their currency.
	Money

	measures
)

var measureNames = [...]string{"requests", "tokens", "input-tokens", "output-tokens", "money"}

// String returns the measure as headers of Anthropic name it, such as "input-tokens".
func (m Measure) String() string {
	if m < measures {
		return measureNames[m]
	}
	return "unknown"
}

// capped returns n between 0 and MaxTokens.
func capped(n int64) int64 { return min(max(n, 0), MaxTokens) }
