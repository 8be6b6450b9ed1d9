// Describes the request for weblimit, in the variable weblimit.question.

var policy = "api";

// How many addresses the load balancers in front of Apigee append to X-Forwarded-For. The first of these, from the
// left, is the client's. What stands before is the client's own invention.
var hops = 2;

// Headers that the policy reads. Never X-Forwarded-For, or others that name addresses.
var wanted = ["X-Api-Key", "Authorization"];

function lines(name) {
  var all = [];
  var count = Number(context.getVariable("request.header." + name + ".values.count") || 0);
  for (var i = 1; i <= count; i++) {
    all.push(String(context.getVariable("request.header." + name + "." + i)));
  }
  return all;
}

var request = {
  method: String(context.getVariable("request.verb")),
  path: String(context.getVariable("request.uri")).split("?")[0],
  headers: {}
};
var addresses = lines("X-Forwarded-For");
if (addresses.length >= hops) {
  request.client_ip = addresses[addresses.length - hops];
}
for (var i = 0; i < wanted.length; i++) {
  var values = lines(wanted[i]);
  if (values.length > 0) {
    request.headers[wanted[i]] = values;
  }
}
context.setVariable("weblimit.question", JSON.stringify({ policy: policy, request: request }));
