// Reads weblimit's answer, and says in weblimit.decision what happens: allowed, denied or away.

var answer = null;
try {
  answer = JSON.parse(String(context.getVariable("weblimitAnswer.content")));
} catch (e) {
  // no answer, or that of somebody else
}
if (!answer || typeof answer.allowed !== "boolean") {
  // While the limiter is away, nobody passes. "allowed": everybody passes.
  context.setVariable("weblimit.decision", "away");
} else {
  var headers = answer.headers || {};
  context.setVariable("weblimit.decision", answer.allowed ? "allowed" : "denied");
  context.setVariable("weblimit.status", String(answer.status));
  context.setVariable("weblimit.problem", JSON.stringify(answer.problem || {}));
  context.setVariable("weblimit.retry_after", headers["Retry-After"] || "");
  context.setVariable("weblimit.ratelimit", headers["RateLimit"] || "");
  context.setVariable("weblimit.ratelimit_policy", headers["RateLimit-Policy"] || "");
}
