package llmlimit

import "github.com/weblimit/weblimit/llmlimit/internal/scan"

// Where each provider's answers, and the events of its streams, tell their usage and have their text. The numbers of
// one provider stand in one table, whichever of its answers they are of: no other answer has something else there.
var (
	openAITree = scan.NewTree(join(
		openAIUsage("usage"),          // of chat completions, completions, embeddings, and responses that are not streamed
		openAIUsage("response.usage"), // of the last event of a streamed response
		text("delta", // of a streamed response
			"choices[].text", "choices[].delta.content", "choices[].delta.refusal", "choices[].delta.reasoning_content",
			"choices[].delta.tool_calls[].function.arguments"))...)

	anthropicTree = scan.NewTree(anthropicFields()...)

	geminiTree = scan.NewTree(join(
		geminiFields(""),        // of an answer, and of each event of a stream
		geminiFields("[]."))...) // of a stream that is an array

	converseTree = scan.NewTree(join(
		bedrockUsage("usage", "Tokens"),
		text("delta.text", "delta.toolUse.input", "delta.reasoningContent.text"),
		[]scan.Field{{Path: "bytes", Kind: scan.Raw, ID: fieldBytes}})...)

	// wholeBedrockTree is of answers that are not streamed: of converse, or of a model itself.
	wholeBedrockTree = scan.NewTree(join(anthropicFields(), bedrockUsage("usage", "Tokens"))...)

	// invokeTree is of a model's own events, in those of Bedrock.
	invokeTree = scan.NewTree(join(anthropicFields(), bedrockUsage("amazon-bedrock-invocationMetrics", "TokenCount"))...)
)

func number(id uint8, paths ...string) (fields []scan.Field) {
	for _, path := range paths {
		fields = append(fields, scan.Field{Path: path, Kind: scan.Number, ID: id})
	}
	return fields
}

func text(paths ...string) (fields []scan.Field) {
	for _, path := range paths {
		fields = append(fields, scan.Field{Path: path, Kind: scan.Length, ID: fieldText})
	}
	return fields
}

func join(lists ...[]scan.Field) (all []scan.Field) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func openAIUsage(at string) []scan.Field {
	return join(
		number(fieldInput, at+".prompt_tokens", at+".input_tokens"),
		number(fieldOutput, at+".completion_tokens", at+".output_tokens"),
		number(fieldTotal, at+".total_tokens"),
		number(fieldCacheRead, at+".prompt_tokens_details.cached_tokens", at+".input_tokens_details.cached_tokens"),
		number(fieldReasoning, at+".completion_tokens_details.reasoning_tokens", at+".output_tokens_details.reasoning_tokens"))
}

func anthropicUsage(at string, output uint8) []scan.Field {
	return join(
		number(fieldInput, at+".input_tokens"),
		number(output, at+".output_tokens"),
		number(fieldCacheRead, at+".cache_read_input_tokens"),
		number(fieldCacheWrite, at+".cache_creation_input_tokens"),
		number(fieldCacheHour, at+".cache_creation.ephemeral_1h_input_tokens"))
}

func anthropicFields() []scan.Field {
	return join(
		anthropicUsage("usage", fieldOutput),        // of an answer, and of message_delta
		anthropicUsage("message.usage", fieldEarly), // of message_start
		text("delta.text", "delta.partial_json", "delta.thinking"))
}

func geminiFields(at string) []scan.Field {
	usage := at + "usageMetadata."
	return join(
		number(fieldInput, usage+"promptTokenCount"),
		number(fieldTool, usage+"toolUsePromptTokenCount"),
		number(fieldCacheRead, usage+"cachedContentTokenCount"),
		number(fieldOutput, usage+"candidatesTokenCount"),
		number(fieldReasoning, usage+"thoughtsTokenCount"),
		number(fieldTotal, usage+"totalTokenCount"),
		text(at+"candidates[].content.parts[].text"),
		[]scan.Field{{Path: at + "candidates[].finishReason", Kind: scan.Length, ID: fieldFinish}})
}

func bedrockUsage(at, unit string) []scan.Field {
	cacheRead, cacheWrite := at+".cacheReadInput"+unit, at+".cacheWriteInput"+unit
	return join(
		number(fieldInput, at+".input"+unit),
		number(fieldOutput, at+".output"+unit),
		number(fieldCacheRead, cacheRead),
		number(fieldCacheWrite, cacheWrite))
}
