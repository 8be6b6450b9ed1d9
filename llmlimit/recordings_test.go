package llmlimit

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// recording is an answer in a documented shape.
type recording struct {
	api      API
	path     string
	kind     string // Content-Type
	header   http.Header
	body     string
	told     Usage
	lastTold string // the text behind which all of told is known
}

func (r recording) headers() http.Header {
	h := http.Header{"Content-Type": {r.kind}}
	for name, values := range r.header {
		h[name] = values
	}
	return h
}

const (
	jsonType  = "application/json"
	sseType   = "text/event-stream; charset=utf-8"
	frameType = "application/vnd.amazon.eventstream"
)

// lie is a text that looks like usage, in the place of text.
const lie = `\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\ndata: {\"usage\":{\"input_tokens\":0}}`

func event(kind, data string) string { return "event: " + kind + "\ndata: " + data + "\n\n" }

func data(parts ...string) string { return "data: " + strings.Join(parts, "\n\ndata: ") + "\n\n" }

// amazon returns messages of Amazon's event stream: pairs of a type and a payload.
func amazon(pairs ...string) string {
	var stream []byte
	for i := 0; i < len(pairs); i += 2 {
		stream = appendFrame(stream, [][2]string{{":event-type", pairs[i]}, {":content-type", jsonType}, {":message-type", "event"}}, []byte(pairs[i+1]))
	}
	return string(stream)
}

func chunk(text string) string {
	return `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `","p":"abcdefgh"}`
}

var recordings = map[string]recording{
	"OpenAI chat": {
		api: OpenAI, path: "/v1/chat/completions", kind: jsonType,
		body: `{"id":"chatcmpl-1","object":"chat.completion","created":1741570283,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":"` + lie + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":1117,"completion_tokens":46,"total_tokens":1163,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":12,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_1"}`,
		told: Usage{Input: 1117, CacheRead: 1024, Output: 46, Reasoning: 12}, lastTold: `"reasoning_tokens":12,`,
	},
	"OpenAI chat, streamed": {
		api: OpenAI, path: "/v1/chat/completions", kind: sseType,
		body: data(
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":"`+lie+`"},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}}}`,
			`[DONE]`),
		told: Usage{Input: 19, CacheRead: 3, Output: 10, Reasoning: 4}, lastTold: `"reasoning_tokens":4}`,
	},
	"OpenAI responses": {
		api: OpenAI, path: "/v1/responses", kind: jsonType,
		body: `{"id":"resp_1","object":"response","status":"completed","error":null,"model":"gpt-4.1-2025-04-14","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"In a forest","annotations":[]}]}],"reasoning":{"effort":null,"summary":null},"text":{"format":{"type":"text"}},` +
			`"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":5},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":7},"total_tokens":123},"user":null,"metadata":{}}`,
		told: Usage{Input: 36, CacheRead: 5, Output: 87, Reasoning: 7}, lastTold: `"reasoning_tokens":7}`,
	},
	"OpenAI responses, streamed": {
		api: OpenAI, path: "/v1/responses", kind: sseType,
		body: event("response.created", `{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","usage":null,"user":null,"metadata":{}}}`) +
			event("response.output_text.delta", `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi","sequence_number":4}`) +
			event("response.completed", `{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":1},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":48},"user":null}}`),
		told: Usage{Input: 37, CacheRead: 1, Output: 11, Reasoning: 2}, lastTold: `"reasoning_tokens":2}`,
	},
	"OpenAI embeddings": {
		api: OpenAI, path: "/v1/embeddings", kind: jsonType,
		body: `{"object":"list","data":[{"object":"embedding","embedding":[0.0023064255,-0.009327292,-1e-7],"index":0}],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`,
		told: Usage{Input: 8}, lastTold: `"total_tokens":8}`,
	},
	"Anthropic": {
		api: Anthropic, path: "/v1/messages", kind: jsonType,
		body: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Hi!"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"usage":{"input_tokens":1,"output_tokens":1}}}],"stop_reason":"end_turn","stop_sequence":null,` +
			`"usage":{"input_tokens":21,"cache_creation_input_tokens":188086,"cache_read_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":188000,"ephemeral_1h_input_tokens":86},"output_tokens":393,"service_tier":"standard"}}`,
		told: Usage{Input: 21 + 188086 + 300, CacheRead: 300, CacheWrite: 188086, CacheWriteHour: 86, Output: 393}, lastTold: `"output_tokens":393,`,
	},
	"Anthropic, streamed": {
		api: Anthropic, path: "/v1/messages", kind: sseType,
		body: event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":4,"output_tokens":1}}}`) +
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) +
			event("ping", `{"type": "ping"}`) +
			event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+lie+`"}}`) +
			event("content_block_stop", `{"type":"content_block_stop","index":0}`) +
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`) +
			event("message_stop", `{"type":"message_stop"}`),
		told: Usage{Input: 36, CacheRead: 4, CacheWrite: 7, Output: 15}, lastTold: `"output_tokens":15}`,
	},
	"Gemini": {
		api: Gemini, path: "/v1beta/models/gemini-2.5-pro:generateContent", kind: jsonType,
		body: `{"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"},"finishReason":"STOP","index":0}],` +
			`"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":2,"candidatesTokenCount":10,"toolUsePromptTokenCount":5,"totalTokenCount":1024,"promptTokensDetails":[{"modality":"TEXT","tokenCount":9}],"thoughtsTokenCount":1000},"modelVersion":"gemini-2.5-pro"}`,
		told: Usage{Input: 14, CacheRead: 2, Output: 1010, Reasoning: 1000}, lastTold: `"thoughtsTokenCount":1000}`,
	},
	"Gemini, streamed": {
		api: Gemini, path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent", kind: "text/event-stream",
		body: strings.ReplaceAll(data(
			`{"candidates":[{"content":{"parts":[{"text":"`+lie+`"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":6,"totalTokenCount":6}}`,
			`{"candidates":[{"content":{"parts":[{"text":"b"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":8,"totalTokenCount":20,"thoughtsTokenCount":6}}`,
			`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":9,"totalTokenCount":23,"thoughtsTokenCount":8},"modelVersion":"gemini-2.5-pro"}`),
			"\n", "\r\n"),
		told: Usage{Input: 6, Output: 17, Reasoning: 8}, lastTold: `"thoughtsTokenCount":8}`,
	},
	"Gemini, streamed as an array": {
		api: Gemini, path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent", kind: "application/json; charset=UTF-8",
		body: "[{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hel\"}], \"role\": \"model\"}}],\n  \"usageMetadata\": {\"promptTokenCount\": 6, \"candidatesTokenCount\": 1, \"totalTokenCount\": 7}\n}\n,\r\n" +
			"{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"lo\"}], \"role\": \"model\"}, \"finishReason\": \"STOP\"}],\n  \"usageMetadata\": {\"promptTokenCount\": 6, \"candidatesTokenCount\": 4, \"totalTokenCount\": 10}\n}\n]",
		told: Usage{Input: 6, Output: 4}, lastTold: `"totalTokenCount": 10}`,
	},
	"Bedrock converse": {
		api: Bedrock, path: "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/converse", kind: jsonType,
		body: `{"metrics":{"latencyMs":1275},"output":{"message":{"content":[{"text":"Hi"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"cacheReadInputTokens":10,"cacheWriteInputTokens":20,"inputTokens":125,"outputTokens":60,"totalTokens":215}}`,
		told: Usage{Input: 155, CacheRead: 10, CacheWrite: 20, Output: 60}, lastTold: `"outputTokens":60,`,
	},
	"Bedrock converse, streamed": {
		api: Bedrock, path: "/model/amazon.nova-pro-v1%3A0/converse-stream", kind: frameType,
		body: amazon(
			"messageStart", `{"p":"abcd","role":"assistant"}`,
			"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"`+lie+`"},"p":"abcdefghijk"}`,
			"contentBlockStop", `{"contentBlockIndex":0,"p":"ab"}`,
			"messageStop", `{"p":"abc","stopReason":"end_turn"}`,
			"metadata", `{"metrics":{"latencyMs":468},"p":"abcdefg","usage":{"inputTokens":5,"cacheReadInputTokens":2,"cacheWriteInputTokens":0,"outputTokens":9,"totalTokens":16}}`),
		told: Usage{Input: 7, CacheRead: 2, Output: 9},
	},
	"Bedrock invoke": {
		api: Bedrock, path: "/model/meta.llama3-70b-instruct-v1%3A0/invoke", kind: jsonType,
		header: http.Header{"X-Amzn-Bedrock-Input-Token-Count": {"23"}, "X-Amzn-Bedrock-Output-Token-Count": {"31"}},
		body:   `{"generation":"Hi","prompt_token_count":23,"generation_token_count":31,"stop_reason":"stop"}`,
		told:   Usage{Input: 23, Output: 31}, lastTold: "{",
	},
	"Bedrock invoke, streamed": {
		api: Bedrock, path: "/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream", kind: frameType,
		body: amazon(
			"chunk", chunk(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":12,"output_tokens":1}}}`),
			"chunk", chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+lie+`"}}`),
			"chunk", chunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":34}}`),
			"chunk", chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":12,"outputTokenCount":35,"invocationLatency":712,"firstByteLatency":320,"cacheReadInputTokenCount":3}}`)),
		told: Usage{Input: 15, CacheRead: 3, Output: 35},
	},
}
