// Package charts renders the Helm chart of deploy/helm by Helm's own engine, and looks at all that comes out: whether
// Kubernetes knows every field, whether names, labels and ports agree, and whether weblimitd takes what it is given. It is
// a module of its own, since Helm asks for newer releases of what the other suites share with users.
package charts
