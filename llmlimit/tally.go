package llmlimit

import "github.com/weblimit/weblimit/llmlimit/internal/scan"

// The numbers that answers tell, by their meaning at the provider.
const (
	fieldInput uint8 = iota
	fieldCacheRead
	fieldCacheWrite
	fieldCacheHour
	fieldOutput
	fieldReasoning
	fieldTotal
	fieldTool  // Gemini: input of tools, beside the prompt
	fieldEarly // Anthropic: output at the beginning of a stream, which says nothing of the rest
	numbers

	fieldText   // what the model writes
	fieldFinish // why it has ended
	fieldBytes  // Bedrock: an event in base64
)

// tally is what was read of an answer so far. A number that is told several times, as in each event of a stream, counts
// with its largest value: providers tell sums. It implements scan.Sink.
type tally struct {
	values [numbers]int64
	told   uint16
	pieces int64 // of text
	bytes  int64 // of text
	ended  bool  // the model has told why it has ended
}

var _ scan.Sink = (*tally)(nil)

func (t *tally) Number(id uint8, n int64, whole bool) {
	if id < numbers && whole && n >= 0 { // others are no counts of tokens
		t.told |= 1 << id
		t.values[id] = max(t.values[id], capped(n))
	}
}

func (t *tally) Length(id uint8, n int64) {
	switch {
	case id == fieldFinish:
		t.ended = true
	case n > 0:
		t.pieces++
		t.bytes += n
	}
}

func (t *tally) Short(uint8, []byte, bool) {}
func (t *tally) Raw(uint8, []byte, bool)   {}
func (t *tally) Other(uint8, byte)         {}
func (t *tally) Variant()                  {}

func (t *tally) has(id uint8) bool { return t.told&(1<<id) != 0 }

// add adds what another tally has read of the same answer.
func (t *tally) add(o *tally) {
	t.told |= o.told
	t.pieces += o.pieces
	t.bytes += o.bytes
	t.ended = t.ended || o.ended
	for i, n := range o.values {
		t.values[i] = max(t.values[i], n)
	}
}

// bytesPerToken is how many bytes of text are taken for a token while nothing is told. English has about four.
const bytesPerToken = 4

// written estimates the output so far by the text that has passed: a token for each piece of a stream, or for each four
// bytes.
func (t *tally) written() int64 {
	return capped(max(t.pieces, (t.bytes+bytesPerToken-1)/bytesPerToken))
}

// Report is what an answer tells of its usage.
type Report struct {
	Usage
	InputTold  bool // Input and its parts are what the provider says
	OutputTold bool // Output and its parts are; in a stream that goes on, they can grow
}

// report returns the usage in our meaning.
func (t *tally) report(api API) Report {
	v := &t.values
	r := Report{InputTold: t.has(fieldInput), OutputTold: t.has(fieldOutput)}
	r.Input, r.CacheRead, r.CacheWrite = v[fieldInput], v[fieldCacheRead], v[fieldCacheWrite]
	r.Output, r.Reasoning = max(v[fieldOutput], v[fieldEarly]), v[fieldReasoning]
	switch api {
	case Anthropic, Bedrock: // whose input tokens are those that are not cached
		r.Input = capped(r.Input + r.CacheRead + r.CacheWrite)
	case Gemini: // whose candidates have no thoughts, and whose prompt has nothing of tools
		r.Input = capped(r.Input + v[fieldTool])
		r.Output = capped(r.Output + r.Reasoning)
		r.OutputTold = r.OutputTold || t.has(fieldReasoning)
	}
	if r.InputTold && t.has(fieldTotal) { // embeddings, and answers that were refused, have nothing else
		r.OutputTold, r.Output = true, max(r.Output, v[fieldTotal]-r.Input)
	}
	r.CacheRead = min(r.CacheRead, r.Input)
	r.CacheWrite = min(r.CacheWrite, r.Input-r.CacheRead)
	r.CacheWriteHour = min(v[fieldCacheHour], r.CacheWrite)
	r.Reasoning = min(r.Reasoning, r.Output)
	return r
}
