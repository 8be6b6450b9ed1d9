package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// fakeModel stands in for OpenAI and Anthropic. It repeats the question, a word a token, and fails in the middle of its
// answer where the question has the word fail.
func fakeModel() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { reply(w, r, chat{}) })
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { reply(w, r, messages{}) })
	return mux
}

// question is what both APIs ask.
type question struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Messages  []struct {
		Content content `json:"content"`
	} `json:"messages"`
	Options struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// content is the text of a message: as it is, or in parts.
type content string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(text []byte) error {
	var parts []struct {
		Text string `json:"text"`
	}
	if text[0] != '[' {
		return json.Unmarshal(text, (*string)(c))
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		*c += content(part.Text)
	}
	return nil
}

// form is how an API writes an answer.
type form interface {
	whole(q *question, text string, in, out int) string
	begin(q *question, in int) string
	token(q *question, text string) string
	end(q *question, in, out int) string
}

func reply(w http.ResponseWriter, r *http.Request, f form) {
	var q question
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, `{"error":{"message":"no question","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	asked := strings.Fields(string(q.Messages[len(q.Messages)-1].Content))
	words := strings.Fields("You asked: " + strings.Join(asked, " ") + " I wonder, too.")
	if q.MaxTokens > 0 {
		words = words[:min(len(words), q.MaxTokens)]
	}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, f.whole(&q, strings.Join(words, " "), len(asked), len(words)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, f.begin(&q, len(asked)))
	for _, word := range words {
		if word == "fail" {
			panic(http.ErrAbortHandler)
		}
		if _, err := io.WriteString(w, f.token(&q, word+" ")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, f.end(&q, len(asked), len(words)))
}

// chat is OpenAI's chat completions.
type chat struct{}

func (chat) whole(q *question, text string, in, out int) string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		quote(q.Model), quote(text), in, out, in+out)
}

func (chat) event(q *question, choices, usage string) string {
	return fmt.Sprintf("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":%s,\"choices\":[%s],\"usage\":%s}\n\n", quote(q.Model), choices, usage)
}

func (c chat) begin(q *question, _ int) string {
	return c.event(q, `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "null")
}

func (c chat) token(q *question, text string) string {
	return c.event(q, fmt.Sprintf(`{"index":0,"delta":{"content":%s},"finish_reason":null}`, quote(text)), "null")
}

func (c chat) end(q *question, in, out int) string {
	text := c.event(q, `{"index":0,"delta":{},"finish_reason":"stop"}`, "null")
	if q.Options.IncludeUsage {
		text += c.event(q, "", fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, out, in+out))
	}
	return text + "data: [DONE]\n\n"
}

// messages is Anthropic's messages.
type messages struct{}

func (messages) whole(q *question, text string, in, out int) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":%s,"content":[{"type":"text","text":%s}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`, quote(q.Model), quote(text), in, out)
}

func (messages) begin(q *question, in int) string {
	return fmt.Sprintf("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":%s,\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":1}}}\n\n", quote(q.Model), in) +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
}

func (messages) token(_ *question, text string) string {
	return fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%s}}\n\n", quote(text))
}

func (messages) end(_ *question, _, out int) string {
	return "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		fmt.Sprintf("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":%d}}\n\n", out) +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
}

// quote returns text as JSON.
func quote(text string) string {
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string can be written
	return string(quoted)
}
