package bundle

// Decode is the decoder of one file, for its fuzz test.
var Decode = decode
