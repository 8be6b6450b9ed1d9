package llmlimit

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// readAll reads a recording in chunks that end at some places.
func readAll(t *testing.T, rec recording, chunks ...string) *Reader {
	t.Helper()
	r := NewReader(rec.api, rec.headers())
	if r == nil {
		t.Fatal("nothing can be read of it")
	}
	for _, chunk := range chunks {
		if n, err := r.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write returns %d, %v", n, err)
		}
	}
	return r
}

func TestUsageIsReadHoweverAnAnswerIsCut(t *testing.T) {
	t.Parallel()
	for name, rec := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Report{rec.told, true, true}
			check.Equal(t, "in one piece", readAll(t, rec, rec.body).Report(), want)
			check.Equal(t, "byte by byte", readAll(t, rec, strings.Split(rec.body, "")...).Report(), want)
			for i := range len(rec.body) {
				if got := readAll(t, rec, rec.body[:i], rec.body[i:]).Report(); got != want {
					t.Fatalf("cut at byte %d: %+v", i, got)
				}
			}
		})
	}
}

// What was told before the end of a stream counts, and nothing else: the numbers only grow, and all are known behind the
// last of them.
func TestWhatIsToldAtEachByte(t *testing.T) {
	t.Parallel()
	for name, rec := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			complete := strings.LastIndex(rec.body, rec.lastTold) + len(rec.lastTold)
			if rec.lastTold == "" { // a message of Amazon's counts when its CRC is read
				complete = len(rec.body)
			}
			var before Report
			for i := range len(rec.body) + 1 {
				got := readAll(t, rec, rec.body[:i]).Report()
				if got.Input < before.Input || got.Output < before.Output || before.InputTold && !got.InputTold || before.OutputTold && !got.OutputTold {
					t.Fatalf("behind byte %d: %+v, and before %+v", i, got, before)
				}
				if got.Input > rec.told.Input || got.Output > rec.told.Output {
					t.Fatalf("behind byte %d: %+v", i, got)
				}
				if all := got.Usage == rec.told; i >= complete && !all {
					t.Fatalf("behind byte %d of %d: %+v, want all", i, complete, got)
				}
				before = got
			}
		})
	}
}

// A number that is negative, no whole number or in the wrong place is none. One that is there twice counts once, the
// larger.
func TestAnswersThatLie(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		api  API
		body string
		want Report
	}{
		"negative":          {OpenAI, `{"usage":{"prompt_tokens":-5,"completion_tokens":-1}}`, Report{}},
		"a fraction":        {OpenAI, `{"usage":{"prompt_tokens":5.0,"completion_tokens":1e1}}`, Report{}},
		"text":              {OpenAI, `{"usage":{"prompt_tokens":"5","completion_tokens":null}}`, Report{}},
		"huge":              {OpenAI, `{"usage":{"prompt_tokens":999999999999999999,"completion_tokens":1}}`, Report{Usage{Input: MaxTokens, Output: 1}, true, true}},
		"more than digits":  {OpenAI, `{"usage":{"prompt_tokens":9999999999999999999,"completion_tokens":1}}`, Report{Usage{Output: 1}, false, true}},
		"twice":             {OpenAI, `{"usage":{"prompt_tokens":5,"completion_tokens":7},"usage":{"prompt_tokens":9,"completion_tokens":1}}`, Report{Usage{Input: 9, Output: 7}, true, true}},
		"deeper":            {OpenAI, `{"choices":[{"usage":{"prompt_tokens":5,"completion_tokens":7}}]}`, Report{}},
		"an array":          {OpenAI, `[{"usage":{"prompt_tokens":5,"completion_tokens":7}}]`, Report{}},
		"in text":           {OpenAI, `"{\"usage\":{\"prompt_tokens\":5}}"`, Report{}},
		"more is cached":    {OpenAI, `{"usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":8}}}`, Report{Usage{Input: 5, CacheRead: 5, Output: 7, Reasoning: 7}, true, true}},
		"a total of less":   {Gemini, `{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":1}}`, Report{Usage{Input: 9, Output: 3}, true, true}},
		"nothing but total": {Gemini, `{"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}`, Report{Usage{Input: 9}, true, true}},
		"an hour of more":   {Anthropic, `{"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":3,"cache_creation":{"ephemeral_1h_input_tokens":4}}}`, Report{Usage{Input: 4, CacheWrite: 3, CacheWriteHour: 3, Output: 2}, true, true}},
		"an escaped name":   {OpenAI, `{"\u0075sage":{"prompt_tokens":5,"completion_\u0074okens":7}}`, Report{Usage{Input: 5, Output: 7}, true, true}},
		"another's usage":   {Anthropic, `{"usage":{"prompt_tokens":5,"completion_tokens":7}}`, Report{}},
		"deep":              {OpenAI, strings.Repeat(`{"usage":[`, 10000) + `5`, Report{}},
		"cut in a number":   {OpenAI, `{"usage":{"prompt_tokens":5,"completion_tokens":12`, Report{Usage{Input: 5}, true, false}},
		"not JSON":          {OpenAI, `{"usage":{"prompt_tokens":5;"completion_tokens":12}}`, Report{}},
	} {
		rec := recording{api: tt.api, kind: jsonType}
		check.Equal(t, name, readAll(t, rec, tt.body).Report(), tt.want)
		check.Equal(t, name+", byte by byte", readAll(t, rec, strings.Split(tt.body, "")...).Report(), tt.want)
	}
}

func TestAMessageOfAmazonsWithAWrongCRC(t *testing.T) {
	t.Parallel()
	good := amazon("metadata", `{"usage":{"inputTokens":5,"outputTokens":9}}`)
	for i := range len(good) {
		broken := []byte(good)
		broken[i] ^= 0x20
		rec := recording{api: Bedrock, kind: frameType}
		check.Equal(t, "what is told", readAll(t, rec, string(broken)+good).Report(), Report{})
		check.Equal(t, "what is told, if it comes later", readAll(t, rec, good+string(broken)).Report(), Report{Usage{Input: 5, Output: 9}, true, true})
	}
}

func TestAnswersOfWhichNothingCanBeRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		api    API
		header http.Header
	}{
		"compressed":             {OpenAI, http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}}},
		"compressed twice":       {OpenAI, http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"identity", "gzip"}}},
		"another type":           {OpenAI, http.Header{"Content-Type": {"text/html"}}},
		"no type":                {OpenAI, http.Header{}},
		"two types":              {OpenAI, http.Header{"Content-Type": {jsonType, sseType}}},
		"Amazon's of another":    {OpenAI, http.Header{"Content-Type": {frameType}}},
		"events of Amazon":       {Bedrock, http.Header{"Content-Type": {sseType}}},
		"an unknown API":         {Unknown, http.Header{"Content-Type": {jsonType}}},
		"an API that is not one": {API(99), http.Header{"Content-Type": {jsonType}}},
	} {
		if r := NewReader(tt.api, tt.header); r != nil {
			t.Errorf("%s: something can be read", name)
		}
	}
}

// FuzzReader has any bytes as an answer of each kind: it reads the same however they are cut, and numbers stay within
// their bounds.
func FuzzReader(f *testing.F) {
	for _, rec := range recordings {
		f.Add(uint8(rec.api), rec.kind, []byte(rec.body), uint8(5))
	}
	f.Fuzz(func(t *testing.T, api uint8, kind string, body []byte, step uint8) {
		header := http.Header{"Content-Type": {kind}}
		all, parts := NewReader(API(api), header), NewReader(API(api), header)
		if all == nil {
			return
		}
		_, _ = all.Write(body)
		for rest := body; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			_, _ = parts.Write(rest[:n])
			rest = rest[n:]
		}
		got := all.Report()
		if got != parts.Report() || all.tally != parts.tally {
			t.Fatalf("%+v, and in parts of %d %+v", got, step+1, parts.Report())
		}
		for name, n := range map[string]int64{
			"input": got.Input, "output": got.Output, "uncached": got.Input - got.CacheRead - got.CacheWrite,
			"in minutes": got.CacheWrite - got.CacheWriteHour, "shown": got.Output - got.Reasoning, "read": got.CacheRead,
			"written": all.tally.written(),
		} {
			if n < 0 || n > MaxTokens {
				t.Fatalf("%s: %d of %+v", name, n, got)
			}
		}
	})
}
