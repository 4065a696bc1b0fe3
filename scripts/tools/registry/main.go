// registry is the Distribution registry with storage in files only, for tests. The
// upstream program also contains the clients of three object stores, and takes minutes
// to build.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/middleware/redirect"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
