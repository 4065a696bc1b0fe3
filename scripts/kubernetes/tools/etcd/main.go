// Etcd is the etcd server. Its module has replacements, so that Go cannot build the program of the module by itself.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
