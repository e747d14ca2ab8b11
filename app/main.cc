#include "app/cli.h"

int main(int argc, char** argv) { return sirenfeed::app::run(argc, argv); }
