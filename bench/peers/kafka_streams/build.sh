#!/usr/bin/env bash
# Compiles Fold.java into DIR/classes and fetches what it needs from Maven Central into DIR/libs.
#   bench/peers/kafka_streams/build.sh DIR        then: java -cp 'DIR/classes:DIR/libs/*' Fold …
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?build.sh DIR}
KAFKA_VERSION=4.1.2
SLF4J_VERSION=1.7.36
MAVEN_DEPENDENCY_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
for command in javac mvn; do
  command -v "$command" > /dev/null || { echo "build.sh: needs $command (Debian: openjdk-17-jdk-headless maven)" >&2; exit 1; }
done
mkdir -p "$dir/classes"
if [ ! -e "$dir/.fetched-$KAFKA_VERSION" ]; then
  cat > "$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka-streams-peer</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>$KAFKA_VERSION</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>$SLF4J_VERSION</version>
    </dependency>
  </dependencies>
</project>
POM
  mvn -B -q -ntp -f "$dir/pom.xml" "$MAVEN_DEPENDENCY_PLUGIN:copy-dependencies" -DincludeScope=runtime \
    -DoutputDirectory="$dir/libs" > "$dir/mvn.log" 2>&1 || { tail -n 20 "$dir/mvn.log" >&2; exit 1; }
  touch "$dir/.fetched-$KAFKA_VERSION"
fi
javac --release 17 -Xlint:all -Werror -cp "$dir/libs/*" -d "$dir/classes" "$here/Fold.java"
