package models

import (
	"errors"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func anthropicInGo(t *testing.T, url string) told {
	t.Helper()
	sent := &counter{}
	client := anthropic.NewClient(option.WithBaseURL(url), option.WithAPIKey("demo"), option.WithHTTPClient(&http.Client{Transport: sent}))
	params := func(text string, most int64) anthropic.MessageNewParams {
		model := anthropic.Model("claude-haiku-4-5")
		if most == 0 { // it has to say some; the model writes at most 4,000
			model, most = "claude-sonnet-4-5", 1_000_000
		}
		return anthropic.MessageNewParams{
			Model: model, MaxTokens: most, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
		}
	}
	stream := func(text string, most int64) (said string, used int64, err error) {
		s := client.Messages.NewStreaming(t.Context(), params(text, most))
		defer func() { _ = s.Close() }()
		var input, output int64
		for s.Next() {
			switch e := s.Current().AsAny().(type) {
			case anthropic.MessageStartEvent:
				input = e.Message.Usage.InputTokens
			case anthropic.ContentBlockDeltaEvent:
				said += e.Delta.Text
			case anthropic.MessageDeltaEvent:
				output = e.Usage.OutputTokens
			}
		}
		return said, input + output, s.Err()
	}
	ask := func(text string, most int64) (left string, err error) {
		var res *http.Response
		_, err = client.Messages.New(t.Context(), params(text, most), option.WithResponseInto(&res))
		if res != nil {
			left = res.Header.Get("Anthropic-Ratelimit-Tokens-Remaining")
		}
		return left, err
	}
	return try(t, sent, stream, ask, func(err error) (status int, code string) {
		if failed := (*anthropic.Error)(nil); errors.As(err, &failed) {
			return failed.StatusCode, failed.RawJSON()
		}
		return 0, ""
	})
}
