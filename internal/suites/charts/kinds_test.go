package charts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/weblimit/weblimit/internal/test/check"
)

// kinds have the types of Kubernetes and of the Prometheus operator: an unknown field, or a value of another type, is an
// error.
var kinds = map[string]func() any{
	"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1/Secret":                               func() any { return new(core.Secret) },
	"v1/Service":                              func() any { return new(core.Service) },
	"v1/ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
}

// cluster is what a rendering makes. Of Services it makes up to two.
type cluster struct {
	deployment *apps.Deployment
	account    *core.ServiceAccount
	services   map[string]*core.Service
	budget     *policy.PodDisruptionBudget
	scaler     *autoscaling.HorizontalPodAutoscaler
	network    *networking.NetworkPolicy
	monitor    *monitoring.ServiceMonitor
	rules      *monitoring.PrometheusRule
}

// strict decodes all that is rendered.
func strict(t *testing.T, r rendered) *cluster {
	t.Helper()
	c, names := &cluster{services: map[string]*core.Service{}}, map[string]bool{}
	for _, document := range r.documents() {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		of := kinds[head.APIVersion+"/"+head.Kind]
		if of == nil {
			t.Fatalf("%s/%s is a kind that no test knows:\n%s", head.APIVersion, head.Kind, document)
		}
		object := of()
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		validName(t, head.Kind, head.Metadata.Name)
		if name := head.Kind + " " + head.Metadata.Name; names[name] {
			t.Errorf("%s is there twice", name)
		} else {
			names[name] = true
		}
		c.take(object)
	}
	return c
}

func (c *cluster) take(object any) {
	switch o := object.(type) {
	case *apps.Deployment:
		c.deployment = o
	case *core.ServiceAccount:
		c.account = o
	case *core.Service:
		c.services[o.Name] = o
	case *policy.PodDisruptionBudget:
		c.budget = o
	case *autoscaling.HorizontalPodAutoscaler:
		c.scaler = o
	case *networking.NetworkPolicy:
		c.network = o
	case *monitoring.ServiceMonitor:
		c.monitor = o
	case *monitoring.PrometheusRule:
		c.rules = o
	}
}

var label = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

func validName(t *testing.T, kind, name string) {
	t.Helper()
	if !label.MatchString(name) || len(name) > 63 {
		t.Errorf("%s has the name %q", kind, name)
	}
}

// agree checks that names, labels and ports are those of the pods.
func (c *cluster) agree(t *testing.T) {
	t.Helper()
	d := c.deployment
	pod := d.Spec.Template
	check.Equal(t, "the selector of the Deployment", selects(d.Spec.Selector.MatchLabels, pod.Labels), "")
	container := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, s := range c.services {
		check.Equal(t, "the selector of the Service "+name, selects(s.Spec.Selector, pod.Labels), "")
		if len(s.Spec.Ports) == 0 {
			t.Errorf("the Service %s has no port", name)
		}
		for _, p := range s.Spec.Ports {
			if ports[p.TargetPort.StrVal] != p.Port {
				t.Errorf("the Service %s: port %d leads to %s, and the container has %v", name, p.Port, p.TargetPort.StrVal, ports)
			}
		}
	}
	for _, probe := range []*core.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		if ports[probe.HTTPGet.Port.StrVal] == 0 {
			t.Errorf("a probe asks the port %s, and the container has %v", probe.HTTPGet.Port.StrVal, ports)
		}
	}
	for _, spread := range pod.Spec.TopologySpreadConstraints {
		check.Equal(t, "the selector of the spread", selects(spread.LabelSelector.MatchLabels, pod.Labels), "")
	}
	if c.account != nil {
		check.Equal(t, "the service account", pod.Spec.ServiceAccountName, c.account.Name)
	}
	c.agreeBeside(t, ports)
}

// agreeBeside checks what is not always there.
func (c *cluster) agreeBeside(t *testing.T, ports map[string]int32) {
	t.Helper()
	pod := c.deployment.Spec.Template
	if c.budget != nil {
		check.Equal(t, "the selector of the budget", selects(c.budget.Spec.Selector.MatchLabels, pod.Labels), "")
	}
	if c.scaler != nil {
		to := c.scaler.Spec.ScaleTargetRef
		check.All(t, "what is scaled", []any{to.APIVersion, to.Kind, to.Name}, "apps/v1", "Deployment", c.deployment.Name)
		if c.deployment.Spec.Replicas != nil {
			t.Error("each upgrade would set the number of instances that the autoscaler has chosen back")
		}
	}
	if c.network != nil {
		check.Equal(t, "the selector of the network policy", selects(c.network.Spec.PodSelector.MatchLabels, pod.Labels), "")
		open := map[int32]bool{}
		for _, rule := range c.network.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Error("a rule of the network policy lets everybody in, or to every port")
			}
			for _, p := range rule.Ports {
				open[p.Port.IntVal] = true
			}
		}
		for name, port := range ports {
			if !open[port] && name != "admin" {
				t.Errorf("the network policy lets nobody to the port %s", name)
			}
		}
	}
	if c.monitor != nil {
		found := 0
		for _, s := range c.services {
			if selects(c.monitor.Spec.Selector.MatchLabels, s.Labels) == "" {
				found++
				for _, e := range c.monitor.Spec.Endpoints {
					check.Equal(t, "the port that Prometheus asks", e.Port, s.Spec.Ports[0].Name)
				}
			}
		}
		check.Equal(t, "Services that the ServiceMonitor selects", found, 1)
	}
}

// selects says what labels lack of a selector.
func selects(selector, labels map[string]string) string {
	var lacks []string
	for name, value := range selector {
		if labels[name] != value {
			lacks = append(lacks, fmt.Sprintf("%s=%s", name, value))
		}
	}
	if len(selector) == 0 {
		return "it selects everything"
	}
	return strings.Join(lacks, " ")
}

// confined checks that the pod has no more rights than it needs, whatever was set.
func (c *cluster) confined(t *testing.T) {
	t.Helper()
	pod := c.deployment.Spec.Template.Spec
	container := pod.Containers[0]
	inPod, inContainer := pod.SecurityContext, container.SecurityContext
	check.All(t, "rights", []any{
		*inPod.RunAsNonRoot, inPod.SeccompProfile.Type, *inContainer.AllowPrivilegeEscalation, *inContainer.Privileged, *inContainer.ReadOnlyRootFilesystem,
		fmt.Sprint(inContainer.Capabilities.Drop, inContainer.Capabilities.Add), *pod.AutomountServiceAccountToken, pod.HostNetwork || pod.HostPID || pod.HostIPC,
	}, true, core.SeccompProfileTypeRuntimeDefault, false, false, true, "[ALL] []", false, false)
	if c.account != nil {
		check.Equal(t, "a token of the service account", *c.account.AutomountServiceAccountToken, false)
	}
	for _, m := range container.VolumeMounts {
		if strings.HasPrefix(m.MountPath, "/etc/weblimitd") && !m.ReadOnly {
			t.Errorf("%s can be written to", m.MountPath)
		}
	}
}
