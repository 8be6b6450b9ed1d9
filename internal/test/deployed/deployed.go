// Package deployed gives a test what Kubernetes gives to the container of a Deployment: its variables, and its volumes
// as files. So the program can be asked whether it takes what a manifest says.
package deployed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Object is a part of a manifest, as a reader of YAML decodes it.
type Object = map[string]any

// Secrets are those that a manifest does not have itself: keys and their text, by the name of the Secret.
type Secrets map[string]map[string]string

// Pod is what Kubernetes makes of a Deployment.
type Pod struct {
	Env   []string      // of the container; paths within its volumes are those of the files of this test
	Grace time.Duration // until it is killed
}

// PodName is what fieldRef of metadata.name gives.
const PodName = "weblimitd-7d9f-abcde"

// object has the fields of all kinds that make a pod.
type object struct {
	Kind     string
	Metadata struct{ Name string }

	Data, StringData map[string]string

	Spec struct {
		Template struct{ Spec pod }
	}
}

type pod struct {
	TerminationGracePeriodSeconds int

	Containers []struct {
		Env          []variable
		VolumeMounts []struct{ Name, MountPath, SubPath string }
	}
	Volumes []volume
}

type variable struct {
	Name, Value string
	ValueFrom   *struct {
		SecretKeyRef *struct{ Name, Key string }
		FieldRef     *struct{ FieldPath string }
	}
}

type volume struct {
	Name      string
	ConfigMap *source
	Secret    *source
	Projected *struct {
		Sources []struct{ Secret, ConfigMap *source }
	}
}

// source is a ConfigMap or a Secret, of which a volume has all keys or some.
type source struct {
	Name, SecretName string
	Items            []struct{ Key, Path string }
}

// cluster is what pods are made of.
type cluster struct {
	maps    Secrets // ConfigMaps
	secrets Secrets
}

// New returns what Kubernetes makes of the one Deployment of a manifest, whose container is the first. The test fails
// where Kubernetes would not start it: without a Secret, a ConfigMap or a key in one.
func New(t testing.TB, manifest []Object, secrets Secrets) Pod {
	t.Helper()
	var made pod
	c, deployments := cluster{Secrets{}, Secrets{}}, 0
	for name, keys := range secrets {
		c.secrets[name] = keys
	}
	for _, part := range manifest {
		var o object
		must.OK(t, json.Unmarshal(must.Get(json.Marshal(part))(t), &o))
		switch o.Kind {
		case "ConfigMap":
			c.maps[o.Metadata.Name] = o.Data
		case "Secret":
			c.secrets[o.Metadata.Name] = o.StringData
		case "Deployment":
			made = o.Spec.Template.Spec
			deployments++
		}
	}
	if deployments != 1 || len(made.Containers) != 1 {
		t.Fatalf("%d Deployments, the last with %d containers: want one of each", deployments, len(made.Containers))
	}
	return c.start(t, made)
}

func (c cluster) start(t testing.TB, made pod) Pod {
	t.Helper()
	folders := map[string]string{}
	for _, v := range made.Volumes {
		folders[v.Name] = t.TempDir()
		c.fill(t, folders[v.Name], v)
	}
	container := made.Containers[0]
	mounted := map[string]string{}
	for _, m := range container.VolumeMounts {
		if folders[m.Name] == "" || m.SubPath != "" {
			t.Errorf("%s has the volume %q, which is not there, or a file of it, which does not follow", m.MountPath, m.Name)
		}
		mounted[m.MountPath] = folders[m.Name]
	}
	result := Pod{Grace: time.Duration(made.TerminationGracePeriodSeconds) * time.Second}
	for _, v := range container.Env {
		result.Env = append(result.Env, v.Name+"="+here(c.value(t, v), mounted))
	}
	return result
}

// here returns a value whose path is that of a file of the test.
func here(value string, mounted map[string]string) string {
	for path, folder := range mounted {
		if within, ok := strings.CutPrefix(value, path); ok && (within == "" || within[0] == '/') {
			return folder + within
		}
	}
	return value
}

func (c cluster) value(t testing.TB, v variable) string {
	t.Helper()
	switch from := v.ValueFrom; {
	case from == nil:
		return v.Value
	case from.SecretKeyRef != nil:
		text, there := c.secrets[from.SecretKeyRef.Name][from.SecretKeyRef.Key]
		if !there {
			t.Errorf("%s: there is no Secret %s with the key %s", v.Name, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
		}
		return text
	case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
		return PodName
	}
	t.Errorf("%s is from somewhere else", v.Name)
	return ""
}

// fill writes the files of a volume.
func (c cluster) fill(t testing.TB, folder string, v volume) {
	t.Helper()
	put := func(kind string, all Secrets, name string, s *source) {
		t.Helper()
		what := fmt.Sprintf("the volume %s: the %s %q", v.Name, kind, name)
		keys, there := all[name]
		if !there {
			t.Errorf("%s is not there", what)
			return
		}
		s.write(t, folder, what, keys)
	}
	if s := v.Secret; s != nil {
		put("Secret", c.secrets, s.SecretName, s)
	}
	if s := v.ConfigMap; s != nil {
		put("ConfigMap", c.maps, s.Name, s)
	}
	if v.Projected != nil {
		for _, one := range v.Projected.Sources {
			if one.Secret != nil {
				put("Secret", c.secrets, one.Secret.Name, one.Secret)
			}
			if one.ConfigMap != nil {
				put("ConfigMap", c.maps, one.ConfigMap.Name, one.ConfigMap)
			}
		}
	}
}

// write writes the keys that a volume has of a source.
func (s *source) write(t testing.TB, folder, what string, keys map[string]string) {
	t.Helper()
	files := map[string]string{}
	for key, text := range keys {
		if len(s.Items) == 0 {
			files[key] = text
		}
	}
	for _, item := range s.Items {
		text, there := keys[item.Key]
		if !there {
			t.Errorf("%s has no key %q", what, item.Key)
		}
		files[item.Path] = text
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: another source has the file %s, too", what, name)
		}
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
}
