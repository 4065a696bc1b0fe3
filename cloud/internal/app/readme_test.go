package app

import (
	"flag"
	"testing"

	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/testenv"
)

var update = flag.Bool("update", false, "rewrite what is generated")

func TestReadme_ListsConfiguration(t *testing.T) {
	const page = "../../CONFIGURATION.md"
	var err error
	if *update {
		err = testenv.UpdateMarkdown(page, "cloud", env.Table[Config]())
	} else {
		err = testenv.CheckMarkdown(page, "cloud", env.Table[Config]())
	}
	if err != nil {
		t.Fatal(err)
	}
}
