package program

// Version is the product's version (semantic versioning).
const Version = "0.1.0"
