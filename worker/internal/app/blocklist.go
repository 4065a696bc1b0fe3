package app

import (
	"fmt"
	"os"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// readBlockList reads the file of BLOCK_LIST; nil without one.
func (c Config) readBlockList() (*browser.BlockList, error) {
	if c.BlockList == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	file, err := os.Open(c.BlockList)
	if err != nil {
		return nil, fmt.Errorf("BLOCK_LIST: %w", err)
	}
	defer file.Close()
	list, err := browser.ReadBlockList(file)
	if err != nil {
		return nil, fmt.Errorf("BLOCK_LIST: %s: %w", c.BlockList, err)
	}
	return list, nil
}
