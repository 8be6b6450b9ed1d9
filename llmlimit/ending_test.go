package llmlimit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// endless are streams of a model that does not stop: what begins a stream, and an event of it. Each event has 8 bytes of
// text, so it counts as 2 tokens.
var endless = map[string]struct {
	api          API
	path, kind   string
	first, event string
	end          string // behind the last event that passes
	cr           bool
}{
	"OpenAI chat": {
		OpenAI, chatPath, sseType, "", data(`{"choices":[{"delta":{"content":"12345678"}}],"usage":null}`),
		"\ndata: " + `{"error":{"message":"` + endedMessage + `","type":"tokens","param":null,"code":"rate_limit_exceeded"}}` + "\n\n", false,
	},
	"OpenAI chat, with usage all the while": {
		OpenAI, chatPath, sseType, "", data(`{"choices":[{"delta":{"content":"12345678"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`),
		"\ndata: " + `{"error":{"message":"` + endedMessage + `","type":"tokens","param":null,"code":"rate_limit_exceeded"}}` + "\n\n", false,
	},
	"OpenAI responses": {
		OpenAI, "/v1/responses", sseType, "", event("response.output_text.delta", `{"type":"response.output_text.delta","delta":"12345678"}`),
		"\nevent: error\ndata: " + `{"type":"error","code":"rate_limit_exceeded","message":"` + endedMessage + `","param":null}` + "\n\n", false,
	},
	"Anthropic": {
		Anthropic, "/v1/messages", sseType, event("message_start", `{"message":{"usage":{"input_tokens":1,"output_tokens":1}}}`),
		event("content_block_delta", `{"delta":{"type":"thinking_delta","thinking":"12345678"}}`),
		"\nevent: error\ndata: " + `{"type":"error","error":{"type":"rate_limit_error","message":"` + endedMessage + `"}}` + "\n\n", false,
	},
	"Gemini": {
		Gemini, "/v1beta/models/m:streamGenerateContent", "text/event-stream", "",
		strings.ReplaceAll(data(`{"candidates":[{"content":{"parts":[{"text":"12345678"}]}}]}`), "\n", "\r\n"),
		"\ndata: " + `{"error":{"code":429,"message":"` + endedMessage + `","status":"RESOURCE_EXHAUSTED"}}` + "\n\n", true,
	},
	"Gemini, as an array": {
		Gemini, "/v1beta/models/m:streamGenerateContent", jsonType, "[{}",
		`,{"candidates":[{"content":{"parts":[{"text":"12345678"}]}}]}`,
		",\n" + `{"error":{"code":429,"message":"` + endedMessage + `","status":"RESOURCE_EXHAUSTED"}}]`, false,
	},
	"Bedrock": {
		Bedrock, "/model/m/converse-stream", frameType, "", amazon("contentBlockDelta", `{"delta":{"text":"12345678"}}`),
		string(exception([]byte(`{"message":"` + endedMessage + `"}`))), false,
	},
	"Bedrock invoke": {
		Bedrock, "/model/m/invoke-with-response-stream", frameType, "", amazon("chunk", chunk(`{"delta":{"text":"12345678"}}`)),
		string(exception([]byte(`{"message":"` + endedMessage + `"}`))), false,
	},
}

// A stream ends behind the event with which it exceeds its estimate, wherever its bytes are cut, with an error in the
// provider's form; and its provider is told to stop.
func TestStreamsEndAtTheirEstimate(t *testing.T) {
	t.Parallel()
	for name, tt := range endless {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed := tt.first + strings.Repeat(tt.event, 6) // 12 tokens of 10
			for step := 1; step < 2*len(tt.event); step++ {
				closed := false
				m := must.Get(New(Config{EndAtEstimate: true}))(t)
				res := &http.Response{
					StatusCode: 200, Header: http.Header{"Content-Type": {tt.kind}, "Content-Length": {"1000"}}, ContentLength: 1000,
					Body: &source{text: tt.first, event: tt.event, step: step, closed: &closed},
				}
				m.wrap(t.Context(), res, &Call{API: tt.api, Stream: true, Output: 10, responses: tt.path == "/v1/responses"}, nil)
				got := string(must.Get(io.ReadAll(res.Body))(t))
				if tt.cr && len(got) == len(passed+tt.end)-1 { // the last line feed had not come yet
					got = got[:len(passed)-1] + "\n" + got[len(passed)-1:]
				}
				if got != passed+tt.end {
					t.Fatalf("in steps of %d: %q", step, got)
				}
				check.Equal(t, "the provider's body is closed", closed, true)
				check.Equal(t, "Content-Length", res.Header.Get("Content-Length")+fmt.Sprint(res.ContentLength), "-1")
				s := res.Body.(*body).spent //nolint:forcetypeassert // it is ours
				check.All(t, "spent", []any{s.Usage.Output, s.OutputTold, s.EndedAtLimit}, int64(12), strings.Contains(name, "all the while"), true)
			}
		})
	}
}

// source is the body of an endless stream.
type source struct {
	text, event string
	step        int
	closed      *bool
}

func (s *source) Read(p []byte) (int, error) {
	for len(s.text) < s.step {
		s.text += s.event
	}
	n := copy(p, s.text[:s.step])
	s.text = s.text[n:]
	return n, nil
}

func (s *source) Close() error {
	*s.closed = true
	return nil
}

// A stream that is at its end is not cut, however much it has used.
func TestAnswersThatAreOverAreNotEnded(t *testing.T) {
	t.Parallel()
	for name, rec := range recordings {
		m := must.Get(New(Config{EndAtEstimate: true}))(t)
		res := &http.Response{StatusCode: 200, Header: rec.headers(), Body: io.NopCloser(strings.NewReader(rec.body))}
		written := max(readAll(t, rec, rec.body).tally.written(), 1) // others are told to have used more
		m.wrap(t.Context(), res, &Call{API: rec.api, Stream: true, Output: written}, nil)
		check.Equal(t, name, string(must.Get(io.ReadAll(res.Body))(t)), rec.body)
	}
}

// What is said in place of the provider is what its own readers take.
func TestErrorsAreJSON(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Unknown, OpenAI, Anthropic, Gemini, Bedrock} {
		for _, status := range []int{400, 401, 402, 403, 429, 500, 503} {
			for measure := range measures {
				text := failure{status, measure, "a \"message\"\n<>&", 1500e6}.appendJSON(nil, api)
				if !json.Valid(text) || !strings.Contains(string(text), `a \"message\"\n`) {
					t.Errorf("%s %d: %s", api, status, text)
				}
			}
		}
	}
}

func FuzzSextets(f *testing.F) {
	f.Add([]byte(`{"usage":{"input_tokens":5}}`), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, step uint8) {
		var got []byte
		var b sextets
		for rest := base64.StdEncoding.EncodeToString(text); rest != ""; {
			n := min(int(step)+1, len(rest))
			got = b.decode(got, []byte(rest[:n]))
			rest = rest[n:]
		}
		if string(got) != string(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
