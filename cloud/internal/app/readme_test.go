package app

import (
	"flag"
	"testing"

	"github.com/browser-svc/svc/shared/env"
)

var update = flag.Bool("update", false, "rewrite what is generated")

func TestReadmeTableIsThatOfTheConfiguration(t *testing.T) {
	const readme = "../../../README.md"
	var err error
	if *update {
		err = env.UpdateMarkdown(readme, "cloud", env.Table[Config]())
	} else {
		err = env.CheckMarkdown(readme, "cloud", env.Table[Config]())
	}
	if err != nil {
		t.Fatal(err)
	}
}
