package charts

import (
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	istio "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Istio's gateway reaches weblimitd as the chart installs it with the values beside: by name, namespace and port, for a
// domain that there are limits of. The suite envoy looks at what the filter says to Envoy.
func TestIstio(t *testing.T) {
	t.Parallel()
	var object struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
		Spec             json.RawMessage
	}
	must.OK(t, yaml.UnmarshalStrict(must.Get(os.ReadFile(deploy+"/istio/envoyfilter.yaml"))(t), &object))
	check.All(t, "the object", []any{object.APIVersion, object.Kind, object.Metadata.Namespace}, "networking.istio.io/v1alpha3", "EnvoyFilter", "istio-system")
	filter := new(istio.EnvoyFilter)
	must.OK(t, protojson.Unmarshal(object.Spec, filter)) // which refuses unknown fields
	_, r := deployedWith(t, "istio", "weblimit")
	c := sound(t, r)
	r.taken(t, "")
	service := c.services["weblimit"]
	if service == nil || service.Spec.ClusterIP == "None" {
		t.Fatal("no Service weblimit with a cluster IP: of one without, sidecars know no instances")
	}
	check.Equal(t, "the port", service.Spec.Ports[0].Port, 9182)
	asks := filter.GetConfigPatches()[0].GetPatch().GetValue().GetFields()["typed_config"].GetStructValue().GetFields()
	grpc := asks["rate_limit_service"].GetStructValue().GetFields()["grpc_service"].GetStructValue().GetFields()["envoy_grpc"].GetStructValue().GetFields()
	check.Equal(t, "the cluster", grpc["cluster_name"].GetStringValue(), "outbound|9182||weblimit.weblimit.svc.cluster.local")
	check.Equal(t, "the authority", "outbound|9182||"+grpc["authority"].GetStringValue(), grpc["cluster_name"].GetStringValue())
	check.Contains(t, "the limits", r["configmap"], "domain: "+asks["domain"].GetStringValue())
	// The network policy lets in those pods that the filter is for, and no others.
	peer := c.network.Spec.Ingress[0].From[0]
	check.Equal(t, "the gateways", selects(filter.GetWorkloadSelector().GetLabels(), peer.PodSelector.MatchLabels), "")
	check.Equal(t, "their namespace", peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"], object.Metadata.Namespace)
	page := string(must.Get(os.ReadFile(root + "/docs/service/kubernetes.md"))(t))
	for _, part := range []string{"--namespace weblimit", "deploy/istio/values.yaml", "deploy/istio/envoyfilter.yaml"} {
		check.Contains(t, "docs/service/kubernetes.md", page, part)
	}
	check.Contains(t, "the filter", string(object.Spec), "Bearer TOKEN") // which the page replaces
}
