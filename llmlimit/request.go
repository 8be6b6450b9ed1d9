package llmlimit

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/weblimit/weblimit/llmlimit/internal/peek"
	"github.com/weblimit/weblimit/llmlimit/internal/scan"
)

// What requests say, by its place in them.
const (
	askModel uint8 = iota
	askStream
	askOptions // for streams of OpenAI
	askOutput
	askChoices
	askPrompts
)

// requestTree is of the requests of all providers: no other request has something else there. Google reads names in
// both spellings.
var requestTree = scan.NewTree(join(
	[]scan.Field{
		{Path: "model", Kind: scan.Short, ID: askModel},
		{Path: "stream", Kind: scan.Short, ID: askStream},
		{Path: "stream_options", Kind: scan.Short, ID: askOptions},
		{Path: "prompt[]", Kind: scan.Short, ID: askPrompts}, // each is answered, in completions
	},
	number(askOutput,
		"max_tokens", "max_completion_tokens", "max_output_tokens", // OpenAI, Anthropic
		"generationConfig.maxOutputTokens", "generationConfig.max_output_tokens",
		"generation_config.maxOutputTokens", "generation_config.max_output_tokens", // Gemini
		"inferenceConfig.maxTokens", "inferenceConfig.max_new_tokens", // Bedrock: converse, Nova
		"max_gen_len", "max_tokens_to_sample", "textGenerationConfig.maxTokenCount"), // Llama, older models
	number(askChoices,
		"n", "best_of",
		"generationConfig.candidateCount", "generationConfig.candidate_count",
		"generation_config.candidateCount", "generation_config.candidate_count"))...)

// request is what the body of a request says. It implements scan.Sink.
type request struct {
	model    string
	models   int  // how often it is named
	doubtful bool // a name differs from one of ours in its case
	stream   bool
	options  bool // it has stream_options
	output   int64
	odd      bool // a number that may be larger than it looks
	choices  int64
	prompts  int64 // of several
}

// readBody reads a body. It reads nothing of one that is not complete or no JSON: others would read it differently.
func readBody(b *peek.Body) *request {
	r := &request{}
	if !b.Complete || !json.Valid(b.Head) {
		return r
	}
	var s scan.Scanner
	s.Reset(requestTree, r)
	feed(&s, b.Head)
	return r
}

func (r *request) Number(id uint8, n int64, whole bool) {
	switch {
	case !whole:
		r.odd = true
	case id == askOutput:
		r.output = max(r.output, capped(n))
	case id == askChoices:
		r.choices = max(r.choices, capped(n))
	}
}

func (r *request) Short(id uint8, text []byte, whole bool) {
	switch id {
	case askPrompts:
		r.prompts++
	case askModel:
		if r.models++; whole {
			r.model = string(text)
		}
	}
}

func (r *request) Other(id uint8, first byte) {
	switch id {
	case askModel:
		r.models++
	case askStream:
		r.stream = first == 't'
	case askOptions:
		r.options = first != 'n'
	case askPrompts:
		if first == '[' { // of tokens; numbers are the tokens of one
			r.prompts++
		}
	default:
		r.odd = r.odd || first != 'n'
	}
}

func (r *request) Length(uint8, int64)     {}
func (r *request) Raw(uint8, []byte, bool) {}
func (r *request) Variant()                { r.doubtful = true }

// modelName returns the model, or "" if there is any doubt which one it is.
func (r *request) modelName() string {
	if r.models != 1 || r.doubtful || !utf8.ValidString(r.model) {
		return ""
	}
	return r.model
}

// outputBound returns how many tokens the answer can have: as many as the request says, or as the model can write, or,
// if neither is known, the estimate of the configuration; for each choice of each prompt.
func (r *request) outputBound(otherwise, model int64) int64 {
	n := r.output
	switch {
	case n == 0 && model > 0:
		n = model
	case n == 0:
		n = otherwise
	case r.odd:
		n = max(n, model, otherwise)
	case model > 0:
		n = min(n, model)
	}
	n = capped(n * max(r.choices, 1)) // both are at most MaxTokens, as are prompts
	return capped(n * max(r.prompts, 1))
}
