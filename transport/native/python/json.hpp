// Values, and the structures of the report's table, as JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "report_table.hpp"

namespace wilkins {

inline void append_json(std::string& out, const std::string& text) {
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        char escaped[8];
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20) {
            snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
            out += escaped;
        } else {
            out += c;
        }
    }
    out += '"';
}

inline void append_json(std::string& out, facts::Nanoseconds time) {
    char text[32];
    snprintf(text, sizeof(text), "%.6f", static_cast<double>(time.count) / 1e9);
    out += text;
}

template <typename Value>
void append_json(std::string& out, const Value& value);

template <typename Value>
void append_json(std::string& out, const std::optional<Value>& value) {
    if (value) append_json(out, *value);
    else out += "null";
}

template <typename Value>
void append_json(std::string& out, const std::vector<Value>& values) {
    out += '[';
    for (const Value& value : values) {
        if (&value != &values.front()) out += ',';
        append_json(out, value);
    }
    out += ']';
}

template <typename Value>
void append_json(std::string& out, const Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
        out += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<Value>) {
        out += std::to_string(value);
    } else if constexpr (std::is_enum_v<Value>) {
        append_json(out, std::string(word(value)));
    } else {
        const char* before = "{\"";
        value.each([&](const char* name, const auto& field) {
            out += before;
            out += name;
            out += "\":";
            append_json(out, field);
            before = ",\"";
        });
        out += '}';
    }
}

template <typename Value>
std::string as_json(const Value& value) {
    std::string out;
    append_json(out, value);
    return out;
}

}  // namespace wilkins
