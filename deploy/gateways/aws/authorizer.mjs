// A Lambda authorizer of type REQUEST for a REST API of Amazon API Gateway, in Node 20 or later. It asks weblimit
// about each request. template.yaml says how denials become 429.

const url = process.env.WEBLIMIT_URL ?? "https://weblimitd.internal:9180";
const token = process.env.WEBLIMIT_TOKEN ?? "";
const policy = process.env.WEBLIMIT_POLICY ?? "api";
// While the limiter is away: closed, nobody passes; open, everybody passes.
const away = process.env.WEBLIMIT_AWAY ?? "closed";

// Headers that the policy reads, in lower case. Never X-Forwarded-For, or others that name addresses.
const wanted = ["x-api-key", "authorization", "user-agent"];

export async function handler(event) {
  let answer;
  try {
    answer = await ask(event);
  } catch (error) {
    console.error("weblimit is away:", error);
    if (away === "open") return verdict(event, "Allow");
    throw error; // template.yaml answers 503
  }
  switch (answer.allowed ? 200 : answer.status) {
    case 200:
      return verdict(event, "Allow", answer.headers);
    case 401:
      throw new Error("Unauthorized"); // this text makes it a 401
    case 503:
      throw new Error("weblimit denied with 503");
    default:
      return verdict(event, "Deny", answer.headers);
  }
}

async function ask(event) {
  const response = await fetch(`${url}/v1/check`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Weblimit-Token": token },
    body: JSON.stringify({ policy, request: describe(event) }),
    signal: AbortSignal.timeout(500),
    redirect: "error",
  });
  const answer = await response.json();
  if (!response.ok || typeof answer.allowed !== "boolean") {
    throw new Error(`${response.status} ${JSON.stringify(answer)}`);
  }
  return answer;
}

function describe(event) {
  const headers = {};
  for (const [name, values] of Object.entries(event.multiValueHeaders ?? {})) {
    if (wanted.includes(name.toLowerCase())) headers[name] = values;
  }
  return {
    method: event.httpMethod,
    path: event.path,
    route: event.resource,
    client_ip: event.requestContext.identity.sourceIp,
    headers,
    query: event.multiValueQueryStringParameters ?? {},
  };
}

// verdict is what API Gateway reads. It knows the context as context.authorizer, and so does the integration.
function verdict(event, effect, headers = {}) {
  return {
    principalId: "client",
    policyDocument: {
      Version: "2012-10-17",
      Statement: [{ Action: "execute-api:Invoke", Effect: effect, Resource: event.methodArn }],
    },
    context: {
      retryAfter: headers["Retry-After"] ?? "",
      rateLimit: headers["RateLimit"] ?? "",
      rateLimitPolicy: headers["RateLimit-Policy"] ?? "",
    },
  };
}
