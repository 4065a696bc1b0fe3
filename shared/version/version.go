// Package version says which version of the product this is.
package version

// Version is the product's, by semantic versioning.
const Version = "0.1.0"
